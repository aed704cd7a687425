import type { Row } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

export async function readRow(given: FormData): Promise<Row> {
  return { text: String(given.get("text") ?? "") };
}

/** A field for the text. */
export default function RowFields({ problems }: { problems: Problems }) {
  return (
    <Labelled name="text" label="Text" problem={problems.text}>
      {(attributes) => <textarea {...attributes} aria-required rows={6} />}
    </Labelled>
  );
}
