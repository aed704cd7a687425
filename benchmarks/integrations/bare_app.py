"""The barest FastAPI application around ONNX Runtime, beside which the generated service is timed: `MODEL PORT`."""

import sys
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
app = FastAPI()


@app.post("/predict")
async def predict(body: dict[str, Any]) -> dict[str, Any]:
    """Run the program on prepared numbers: no checks, no names, no limits."""
    return {"output": session.run(None, {"input": np.array(body["input"], dtype=np.float32)})[0].tolist()}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=False, log_level="warning")
