import { type Row, signature } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

export async function readRow(given: FormData): Promise<Row> {
  try {
    return { values: JSON.parse(String(given.get("values"))) } as Row;
  } catch {
    throw new Error("Values: this is no JSON.");
  }
}

/** A field for the numbers, as JSON. */
export default function RowFields({ problems }: { problems: Problems }) {
  const shape = signature.shape.join(" x ") || "one number";
  return (
    <Labelled name="values" label="Values" hint={`JSON, ${shape}`} problem={problems.values}>
      {(attributes) => <textarea {...attributes} aria-required rows={8} spellCheck={false} />}
    </Labelled>
  );
}
