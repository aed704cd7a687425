/** Asks the service in the page's place: the key and the service's address stay on this server. */

const MAX_BYTES = 8_388_608;
const SECONDS = 30;

const problem = (status: number, text: string) =>
  Response.json({ errors: [{ field: null, problem: text }] }, { status });

export async function POST(request: Request): Promise<Response> {
  if (!request.headers.get("content-type")?.startsWith("application/json")) {
    return problem(415, "the request must be JSON");
  }
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BYTES) {
    return problem(413, "the request is too large");
  }
  const body = await request.text();
  if (body.length > MAX_BYTES) {
    return problem(413, "the request is too large");
  }
  const key = process.env.SERVICE_KEY;
  try {
    const answer = await fetch(`${process.env.SERVICE_URL ?? "http://127.0.0.1:8000"}/predict`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
      body,
      cache: "no-store",
      signal: AbortSignal.timeout(SECONDS * 1000),
    });
    if (answer.status === 401) {
      return problem(502, "this server has no valid key for the service");
    }
    return new Response(answer.body, { status: answer.status, headers: { "Content-Type": "application/json" } });
  } catch {
    return problem(502, "the service cannot be reached; try again in a moment");
  }
}
