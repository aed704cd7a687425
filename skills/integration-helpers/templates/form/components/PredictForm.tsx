"use client";

import { type FormEvent, useId, useRef, useState } from "react";

import type { Prediction } from "../lib/signature";
import Result from "./Result";
import RowFields, { readRow } from "./rows";

export type Problems = Record<string, string>;
type Answer = { prediction?: Prediction; errors?: { field: string | null; problem: string }[] };

/** The service's name of a field, `row.age`, without the part that names the row. */
const fieldOf = (place: string) => place.replace(/^row\./, "");

/** A form of one row, and the model's answer below it. */
export default function PredictForm() {
  const [prediction, setPrediction] = useState<Prediction | null>(null);
  const [problems, setProblems] = useState<Problems>({});
  const [failure, setFailure] = useState("");
  const [isAsking, setAsking] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const failureId = useId();

  async function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (isAsking || !form.current) return;
    setAsking(true);
    setPrediction(null);
    setProblems({});
    setFailure("");
    try {
      const row = await readRow(new FormData(form.current));
      const answer = await fetch("/api/predict", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ row }),
      });
      show(answer.ok, (await answer.json()) as Answer);
    } catch (error) {
      setFailure(error instanceof Error ? error.message : "The answer could not be read.");
    } finally {
      setAsking(false);
    }
  }

  function show(isRight: boolean, answer: Answer) {
    if (isRight && answer.prediction) {
      setPrediction(answer.prediction);
      return;
    }
    const errors = answer.errors ?? [];
    const named = errors.filter((one) => one.field !== null);
    setProblems(Object.fromEntries(named.map((one) => [fieldOf(one.field ?? ""), one.problem])));
    setFailure(
      named.length > 0
        ? `Please correct: ${named.map((one) => fieldOf(one.field ?? "")).join(", ")}.`
        : (errors[0]?.problem ?? "The service gave no answer."),
    );
    const first = fieldOf(named[0]?.field ?? "");
    const wrong = [...(form.current?.elements ?? [])].find((one) => one.getAttribute("name") === first);
    (wrong as HTMLElement | undefined)?.focus();
  }

  return (
    <>
      <form ref={form} onSubmit={ask} noValidate aria-describedby={failure ? failureId : undefined}>
        <RowFields problems={problems} />
        {failure && (
          <p id={failureId} className="wrong" role="alert" data-testid="failure">
            {failure}
          </p>
        )}
        <button type="submit" aria-disabled={isAsking}>
          {isAsking ? "Predicting …" : "Predict"}
        </button>
      </form>
      <div role="status" aria-live="polite" data-testid="answer">
        {prediction && <Result prediction={prediction} />}
      </div>
    </>
  );
}
