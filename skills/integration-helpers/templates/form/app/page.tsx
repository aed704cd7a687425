import PredictForm from "../components/PredictForm";
import { signature } from "../lib/signature";

export default function Page() {
  return (
    <main>
      <h1>{signature.project}</h1>
      <p>
        Predicts <strong>{signature.target}</strong>, release {signature.release}.
      </p>
      <PredictForm />
    </main>
  );
}
