import { type Row, signature } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

/** A number of a field; left out where nothing is in it, so that the service takes its default. */
const numberIn = (given: FormData, name: "most_tokens" | "temperature") =>
  given.get(name) ? { [name]: Number(given.get(name)) } : {};

export async function readRow(given: FormData): Promise<Row> {
  const stop = String(given.get("stop") ?? "");
  return {
    prompt: String(given.get("prompt") ?? ""),
    seed: Math.floor(Math.random() * 2 ** 31),
    ...numberIn(given, "most_tokens"),
    ...numberIn(given, "temperature"),
    ...(stop ? { stop } : {}),
  };
}

/** Fields for the prompt and for how the model writes on. */
export default function RowFields({ problems }: { problems: Problems }) {
  const most = signature.most_new_tokens ?? undefined;
  return (
    <>
      <Labelled name="prompt" label="Prompt" problem={problems.prompt}>
        {(attributes) => <textarea {...attributes} rows={4} />}
      </Labelled>
      <Labelled name="most_tokens" label="Tokens" hint={`1 to ${most}`} problem={problems.most_tokens}>
        {(attributes) => <input {...attributes} type="number" min={1} max={most} defaultValue={64} />}
      </Labelled>
      <Labelled name="temperature" label="Temperature" hint="0: the likeliest each time" problem={problems.temperature}>
        {(attributes) => <input {...attributes} type="number" min={0} max={10} step="any" defaultValue={0.8} />}
      </Labelled>
      <Labelled name="stop" label="Stop" hint="It ends before these words; may be empty" problem={problems.stop}>
        {(attributes) => <input {...attributes} type="text" maxLength={100} />}
      </Labelled>
    </>
  );
}
