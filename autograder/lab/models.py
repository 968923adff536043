"""Models of three kinds: the course's default, real shapes with random weights, and hub ids or folders.

Shapes in comments: B requests, T tokens of this forward, V vocabulary.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import os
from functools import cache
from pathlib import Path

import torch
import transformers
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DynamicCache, LlamaConfig
from transformers.utils import logging

from . import default_model
from .errors import LabError
from .hardware import device

DEFAULT = "smollm2-135m"

_SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
    "tie_word_embeddings": True,
}
SHAPES = {
    "tiny": {
        "vocab_size": 211,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 24,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": False,
    },
    "smollm2-135m": _SMOLLM2,
    "llama-3.2-1b": {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "tie_word_embeddings": True,
    },
    "llama-3.1-8b": {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "tie_word_embeddings": False,
    },
}


def resolve(name: str | None) -> str:
    """The model's name: the given one, else $COURSE_MODEL, else the default."""
    return name or os.environ.get("COURSE_MODEL") or DEFAULT


def config(
    name: str | None = None, *, layers: int | None = None, vocab_size: int | None = None
) -> transformers.PreTrainedConfig:
    """The transformers config of a model, without its weights.

    `shape:` names give the published geometry with plain rotary positions (the long-context scaling of the
    llama-3 models is left out: it costs no time) and no special tokens. `layers` and `vocab_size` override
    a shape's geometry. Raises LabError for a name that is not known or cannot be read.
    """
    name = resolve(name)
    if not name.startswith("shape:"):
        if layers or vocab_size:
            raise LabError(f"layers and vocab_size change a 'shape:' model, not {name!r}.")
        if name == DEFAULT:
            return LlamaConfig(
                **_SMOLLM2, bos_token_id=1, eos_token_id=2, pad_token_id=2, architectures=["LlamaForCausalLM"]
            )
        return _read(AutoConfig, name)
    shape = SHAPES.get(name.removeprefix("shape:"))
    if shape is None:
        raise LabError(f"{name!r} is not a shape of this course: choose from {_shape_names()}.")
    changes = {"num_hidden_layers": layers, "vocab_size": vocab_size}
    return LlamaConfig(
        **shape | {key: value for key, value in changes.items() if value},
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        architectures=["LlamaForCausalLM"],
    )


def load_model(
    name: str | None = None,
    *,
    dtype: torch.dtype | None = None,
    off_grid: bool = False,
    layers: int | None = None,
    vocab_size: int | None = None,
    seed: int = 0,
) -> transformers.PreTrainedModel:
    """A transformers causal LM on `device()`, in eval mode.

    name:       "smollm2-135m" (real weights), "shape:tiny", "shape:smollm2-135m", "shape:llama-3.2-1b",
                "shape:llama-3.1-8b" (random weights that depend on `seed` alone), a hub id or a folder;
                None: $COURSE_MODEL, else "smollm2-135m".
    dtype:      None: float32 for shape:tiny, else the machine card's faster one if a card was measured, else
                float32.
    off_grid:   add uniform noise of half each group's own quantization step to the linear weights (groups of
                32 along the input, asymmetric 4-bit grid): the default model's weights lie on such a grid.
    layers, vocab_size: override the geometry of a `shape:` model.

    Asked twice for the same, a process gets the same object: copy it before you change it.
    Raises LabError when the model cannot be had.
    """
    name = resolve(name)
    return _model(name, dtype or _usual_dtype(name), off_grid, layers, vocab_size, seed, str(device()))


def random_model(geometry: dict, *, seed: int) -> transformers.PreTrainedModel:
    """A small model of any family with random float32 weights: what `shape:tiny` is to Llama, on `device()`.

    geometry: what `AutoConfig.for_model` takes, `model_type` among it. Every matrix is normal with standard deviation
    0.25, every vector is all ones, biases too. A new object each time.
    """
    built = AutoConfig.for_model(**geometry)
    return _random_model(built, "shape:tiny", torch.float32, seed, str(device())).eval().requires_grad_(False)


def load_tokenizer(name: str | None = None) -> transformers.PreTrainedTokenizerBase:
    """The tokenizer that belongs to a model, the same object each time. Raises LabError for a shape."""
    return _tokenizer(resolve(name))


def new_cache(model: transformers.PreTrainedModel) -> DynamicCache:
    """An empty cache for one forward after another; it grows by each forward's tokens."""
    return DynamicCache(config=model.config)


def forward(model: transformers.PreTrainedModel, ids: torch.Tensor, cache=None, *, keep: int = 1) -> torch.Tensor:
    """Logits [B, keep, V] of the last `keep` positions of ids [B, T] (0: all of them, [B, T, V]).

    With a cache, ids follow what the cache holds, and it must grow by T tokens (else LabError).
    Grad mode is the caller's: use `torch.inference_mode()`.
    """
    if cache is None:
        return model(ids, use_cache=False, logits_to_keep=keep).logits  # [B, keep, V]
    before = int(cache.get_seq_length())
    logits = model(ids, **{_cache_keyword(type(model)): cache}, use_cache=True, logits_to_keep=keep).logits
    grown = int(cache.get_seq_length()) - before
    if grown != ids.shape[1]:
        raise LabError(f"The cache grew by {grown} tokens where {ids.shape[1]} were fed.")
    return logits


def random_prompt(tokens: int, *, vocab_size: int, rng: torch.Generator | None = None) -> torch.Tensor:
    """Token ids drawn evenly from the vocabulary: int64 [1, tokens] on `device()`."""
    where = rng.device if rng is not None else "cpu"
    return torch.randint(vocab_size, (1, tokens), generator=rng, device=where).to(device())


def weight_bytes(model: torch.nn.Module) -> int:
    """Bytes of weights that one decode step reads.

    Every distinct parameter counts once; an input embedding that is not also the output head is left out, for
    a step reads one row of it.
    """
    table = model.get_input_embeddings().weight
    head = model.get_output_embeddings()
    tied = head is not None and head.weight is table
    return sum(weight.nbytes for weight in model.parameters() if tied or weight is not table)


@cache
def _model(name, dtype, off_grid, layers, vocab_size, seed, where) -> transformers.PreTrainedModel:
    if name.startswith("shape:"):
        model = _random_model(config(name, layers=layers, vocab_size=vocab_size), name, dtype, seed, where)
    elif layers or vocab_size:
        raise LabError(f"layers and vocab_size change a 'shape:' model, not {name!r}.")
    else:
        model = _read(AutoModelForCausalLM, name, dtype=torch.float32 if off_grid else dtype)
    if off_grid:
        _leave_grid(model, seed)
    return model.to(device=where, dtype=dtype).eval().requires_grad_(False)


@cache
def _tokenizer(name: str) -> transformers.PreTrainedTokenizerBase:
    if name.startswith("shape:"):
        raise LabError(f"{name!r} has random weights and no tokenizer: use lab.random_prompt.")
    return _read(AutoTokenizer, name)


def _read(kind, name: str, **options):
    """`kind.from_pretrained` for the default model, a folder or a hub id; any failure is one LabError."""
    folder = default_model.ensure() if name == DEFAULT else Path(name).expanduser()
    if not folder.is_dir() and (name.startswith(("/", ".", "~")) or name.count("/") > 1):
        raise LabError(f"There is no model folder {folder}: see the path again.")
    source = folder if folder.is_dir() else name
    try:
        with _no_progress_bar():
            return kind.from_pretrained(source, local_files_only=isinstance(source, Path), **options)
    except Exception as error:  # hub, network, files: the library raises a dozen kinds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise LabError(
            f"{name!r} cannot be loaded ({reason[0][:160].rstrip('. ')}): give a hub id that this machine "
            f"can reach, a folder, {DEFAULT!r}, or one of {_shape_names()}."
        ) from error


@contextlib.contextmanager
def _no_progress_bar():
    """Loading takes a tenth of a second and its bar would look like an error in a notebook."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _random_model(config, name: str, dtype, seed: int, where: str) -> transformers.PreTrainedModel:
    """Random weights: normal with standard deviation 0.25 for shape:tiny, else even around 0 with 0.02."""
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config)
    rng = torch.Generator(where).manual_seed(seed)
    weights = {}
    for key, weight in model.named_parameters():
        values = torch.empty(weight.shape, dtype=dtype, device=where)
        if weight.ndim == 1:
            values.fill_(1)
        elif name == "shape:tiny":
            values.normal_(0, 0.25, generator=rng)
        else:
            values.uniform_(-0.02 * math.sqrt(3), 0.02 * math.sqrt(3), generator=rng)
        weights[key] = values
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    return model


@torch.no_grad()
def _leave_grid(model: transformers.PreTrainedModel, seed: int, group: int = 32) -> None:
    """Move each linear weight by up to half its group's 4-bit step, (max - min) / 15, either way."""
    table = model.get_input_embeddings().weight
    rng = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear) and layer.weight is not table:
            groups = layer.weight.unflatten(1, (-1, group))  # [O, E / group, group]
            low, high = groups.aminmax(dim=-1, keepdim=True)
            noise = torch.empty(groups.shape).uniform_(-0.5, 0.5, generator=rng)
            groups.add_(noise.to(groups).mul_((high - low) / 15))


def _usual_dtype(name: str) -> torch.dtype:
    from . import machine

    if name == "shape:tiny":
        return torch.float32
    card = machine.recorded()
    return card.dtype if card else torch.float32


@cache
def _cache_keyword(kind: type) -> str:
    """The name under which this version of this model takes a cache."""
    names = inspect.signature(kind.forward).parameters
    for keyword in ("cache", "past_key_values"):
        if keyword in names:
            return keyword
    raise LabError(f"{kind.__name__} takes no cache.")


def _shape_names() -> str:
    return ", ".join(f"'shape:{name}'" for name in SHAPES)
