import { useEffect, useState } from "react";

import { chosenFile } from "../lib/chosen";
import type { Row } from "../lib/signature";
import Labelled from "./Labelled";
import type { Problems } from "./PredictForm";

export async function readRow(given: FormData): Promise<Row> {
  return { picture: await chosenFile(given, "picture", "Picture") };
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
