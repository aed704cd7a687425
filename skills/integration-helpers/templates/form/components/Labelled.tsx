import { type ReactNode, useId } from "react";

type Given = { id: string; name: string; "aria-invalid": boolean; "aria-describedby": string | undefined };

/** A field with its label, a hint, and what is wrong with it; `children` makes the element of the attributes. */
export default function Labelled({
  name,
  label = name,
  hint,
  problem,
  children,
}: {
  name: string;
  label?: string;
  hint?: string;
  problem?: string;
  children: (given: Given) => ReactNode;
}) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", problem ? `${id}-problem` : ""].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, name, "aria-invalid": Boolean(problem), "aria-describedby": described || undefined })}
      {hint && (
        <span id={`${id}-hint`} className="hint">
          {hint}
        </span>
      )}
      {problem && (
        <span id={`${id}-problem`} className="wrong">
          {label}: {problem}
        </span>
      )}
    </div>
  );
}
