import { type Field, type Row, signature } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

/** What was entered, by column; null where nothing was and the model takes that. */
export async function readRow(given: FormData): Promise<Row> {
  const entries = signature.fields.map((field) => {
    const text = String(given.get(field.name) ?? "").trim();
    return [field.name, text === "" && field.may_be_empty ? null : text];
  });
  return Object.fromEntries(entries) as Row;
}

const hintOf = (field: Field) =>
  [
    field.format ? `${field.format}${field.has_time ? " hour:minute" : ""}` : "",
    field.may_be_empty ? "may be empty" : "",
  ]
    .filter(Boolean)
    .join(", ");

/** A field for each column of the table. */
export default function RowFields({ problems }: { problems: Problems }) {
  return signature.fields.map((field) => (
    <Labelled key={field.name} name={field.name} hint={hintOf(field)} problem={problems[field.name]}>
      {(attributes) => {
        const needed = { ...attributes, "aria-required": !field.may_be_empty };
        if (field.kind === "category" || field.kind === "boolean") {
          const choices = field.kind === "boolean" ? ["true", "false"] : field.choices;
          return (
            <select {...needed} defaultValue="">
              <option value="">Choose …</option>
              {choices.map((choice) => (
                <option key={choice} value={choice}>
                  {choice}
                </option>
              ))}
            </select>
          );
        }
        if (field.kind === "text") return <textarea {...needed} rows={3} />;
        return <input {...needed} inputMode={field.kind === "number" ? "decimal" : undefined} autoComplete="off" />;
      }}
    </Labelled>
  ));
}
