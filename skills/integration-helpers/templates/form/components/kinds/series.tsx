import { type Past, type Row, signature } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

/** Rows of CSV without quotes, whose delimiter is the one that stands most often in the header. */
function rowsOf(text: string): Past[] {
  const [header = "", ...lines] = text.split(/\r?\n/).filter((line) => line.trim());
  const count = (mark: string) => header.split(mark).length;
  const mark = [",", ";", "\t"].reduce((best, other) => (count(other) > count(best) ? other : best));
  const names = header.split(mark).map((name) => name.trim());
  return lines.map((line) => {
    const cells = line.split(mark);
    return Object.fromEntries(names.map((name, place) => [name, cells[place]?.trim() ?? null])) as Past;
  });
}

export async function readRow(given: FormData): Promise<Row> {
  const text = String(given.get("past") ?? "").trim();
  if (!text.startsWith("[")) return { past: rowsOf(text) };
  try {
    return { past: JSON.parse(text) as Past[] };
  } catch {
    throw new Error("Past: this is no JSON.");
  }
}

/** A field for the rows, as they are copied from a file or a spreadsheet. */
export default function RowFields({ problems }: { problems: Problems }) {
  const hint = `The last ${signature.window} rows or more with their header, as CSV; or a list of objects as JSON`;
  return (
    <Labelled name="past" label="Past" hint={hint} problem={problems.past}>
      {(attributes) => <textarea {...attributes} aria-required rows={12} spellCheck={false} />}
    </Labelled>
  );
}
