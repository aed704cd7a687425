import { useEffect, useState } from "react";

import type { Row } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

export async function readRow(given: FormData): Promise<Row> {
  const file = given.get("picture");
  if (!(file instanceof File) || file.size === 0) throw new Error("Picture: choose a file.");
  const reader = new FileReader();
  const read = new Promise<string>((resolve, reject) => {
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error("Picture: the file cannot be read."));
  });
  reader.readAsDataURL(file);
  return { picture: await read };
}

/** A field for the picture, and the picture that was chosen. */
export default function RowFields({ problems }: { problems: Problems }) {
  const [shown, setShown] = useState("");
  useEffect(() => () => URL.revokeObjectURL(shown), [shown]);
  return (
    <Labelled name="picture" label="Picture" hint="PNG or JPEG" problem={problems.picture}>
      {(attributes) => (
        <>
          <input
            {...attributes}
            aria-required
            type="file"
            accept="image/*"
            onChange={(event) => {
              const file = event.target.files?.[0];
              setShown(file ? URL.createObjectURL(file) : "");
            }}
          />
          {shown && <img src={shown} alt="The chosen picture" />}
        </>
      )}
    </Labelled>
  );
}
