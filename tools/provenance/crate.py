"""The statement as an RO-Crate, which archives and research tools read: version 1.1, profile Process Run Crate 0.5.

The project folder is the crate. Specification: w3id.org/ro/crate/1.1 and w3id.org/ro/wfrun/process/0.5.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

RO_CRATE = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
SHA256 = "https://w3id.org/ro/terms/workflow-run#sha256"
"""RO-Crate itself has no word for a file's digest; the profile's vocabulary has."""
SOFTWARE = "#trainwright"

Entity = dict[str, Any]


def crate(statement: dict[str, Any], statement_file: str) -> Entity:
    """Return the content of `ro-crate-metadata.json`; all of it follows from the in-toto statement.

    Args:
        statement_file: name of the statement's own file in the project folder.
    """
    predicate = statement["predicate"]
    definition, details = predicate["buildDefinition"], predicate["runDetails"]
    files = [_file(one) for one in statement["subject"]]
    materials = [_material(one) for one in definition["resolvedDependencies"]]
    gates = [_gate(one) for one in details["byproducts"] if one["name"].startswith("gate/")]
    action = _action(definition, details["metadata"], materials, files)
    proof = {"@id": quote(statement_file), "@type": "File", "name": "in-toto statement with SLSA provenance",
             "encodingFormat": "application/json"}  # fmt: skip
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{definition['externalParameters']['project']}: a trained model, and how it was made",
        "description": _description(definition["externalParameters"]),
        "datePublished": gates[-1]["dateCreated"],
        "conformsTo": {"@id": PROFILE},
        "hasPart": _references([*files, proof]),
        "mentions": _references([action, *gates]),
    }
    version = details["builder"]["version"]["trainwright"]
    software = {"@id": SOFTWARE, "@type": "SoftwareApplication", "name": "Trainwright", "softwareVersion": version}
    return {
        "@context": [f"{RO_CRATE}/context", {"sha256": SHA256}],
        "@graph": [_descriptor(), root, _profile(), action, software, *files, proof, *materials, *gates],
    }


def file_digests(crate: Entity) -> dict[str, str]:
    """Return the sha256 of every file that a crate gives one for, by its name in the project folder."""
    return {unquote(one["@id"]): one["sha256"] for one in crate["@graph"] if "sha256" in one}


def _descriptor() -> Entity:
    conforms, about = {"@id": RO_CRATE}, {"@id": "./"}
    return {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "conformsTo": conforms, "about": about}


def _profile() -> Entity:
    return {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": PROFILE.rsplit("/", 1)[1]}


def _description(parameters: dict[str, Any]) -> str:
    goal = parameters["goal"]
    return (
        f"The final model of project {parameters['project']}. Goal: {goal['direction']} validation {goal['metric']} to "
        f"{goal['target']}. Its results stand in final_model/metrics.json and in the model card."
    )


def _action(
    definition: dict[str, Any], metadata: dict[str, Any], materials: list[Entity], files: list[Entity]
) -> Entity:
    times = {"startTime": metadata.get("startedOn"), "endTime": metadata.get("finishedOn")}
    return {
        "@id": f"#{quote(metadata['invocationId'])}",
        "@type": "CreateAction",
        "name": f"Training run {metadata['invocationId']} and its export",
        "description": f"Seed {definition['internalParameters']['seed']}",
        "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
        "instrument": {"@id": SOFTWARE},
        "object": _references(materials),
        "result": _references(files),
        **{name: time for name, time in times.items() if time},
    }


def _file(subject: dict[str, Any]) -> Entity:
    name, digest = subject["name"], subject["digest"]["sha256"]
    return {"@id": quote(name), "@type": "File", "name": name, "sha256": digest}


def _material(one: dict[str, Any]) -> Entity:
    """Return an input by its digest; none of them is in the crate."""
    entity = {"@id": f"#{quote(one['name'])}", "@type": "CreativeWork", "name": one["name"],
              "identifier": _identifier(one["digest"])}  # fmt: skip
    notes = one.get("annotations", {})
    if "packages" in notes:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(notes["packages"].items()))
        entity["description"] = f"Python {notes.get('python')}: {packages}"
    return entity


def _gate(one: dict[str, Any]) -> Entity:
    notes = one["annotations"]
    return {
        "@id": f"#{one['name']}",
        "@type": "CreativeWork",
        "name": f"{one['name']}: {notes['outcome']}, entry {notes['sequence']} of the ledger",
        "dateCreated": notes["time"],
        "identifier": _identifier(one["digest"]),
    }


def _identifier(digest: dict[str, str]) -> str:
    return ", ".join(f"{algorithm}:{value}" for algorithm, value in digest.items())


def _references(entities: list[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]
