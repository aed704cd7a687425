/** The file that a field of a form holds, as a data URL; `label` is what an error calls it. */
export async function chosenFile(given: FormData, name: string, label: string): Promise<string> {
  const file = given.get(name);
  if (!(file instanceof File) || file.size === 0) throw new Error(`${label}: choose a file.`);
  const reader = new FileReader();
  const read = new Promise<string>((resolve, reject) => {
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${label}: the file cannot be read.`));
  });
  reader.readAsDataURL(file);
  return read;
}
