"""Open a causal language model that transformers loads: a folder, a GGUF file or a name on the hub.

Weights are read from safetensors or GGUF files, which cannot run code. Code that comes with a model runs only if it is asked for.
"""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import read_json
from selfnorm.hf.adapter import Adapter

PREFIX = "hf:"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Source:
    """Where a model is: a folder or a name, and the GGUF file in it, if it is one."""

    name: str
    gguf: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {"gguf_file": self.gguf} if self.gguf else {}

    @property
    def label(self) -> str:
        return Path(self.gguf or self.name).name


@dataclass(frozen=True)
class Opened:
    """A model, its tokenizer and where they came from."""

    adapter: Adapter
    tokenizer: Any
    source: Source


def transformers() -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError:
        raise missing_extra("transformers", "hf", "Opening a model of transformers") from None


def find(name: str) -> Source:
    """The folder, GGUF file or hub name that a user gave, with or without "hf:" before it."""
    name = name.removeprefix(PREFIX)
    path = Path(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UserError(f"{path} does not exist. Check the path of the GGUF file.")
        return Source(str(path.parent), path.name)
    if not path.is_dir():
        if path.is_absolute() or path.is_file() or name.startswith((".", "~")) or not 0 < len(path.parts) < 3:
            raise UserError(f"{path} is not a folder. Give a model folder, a .gguf file, or a name such as org/model.")
        return Source(name)
    files = sorted(file.name for file in path.glob("*.gguf"))
    if (path / "config.json").is_file() or not files:
        return _checked(path)
    if len(files) > 1:
        raise UserError(f"{path} holds {len(files)} GGUF files. Name one of them: {', '.join(files[:5])}.")
    return Source(name, files[0])


def _checked(path: Path) -> Source:
    if not (path / "config.json").is_file():
        raise UserError(
            f"{path} has neither a config.json nor a .gguf file: it is not a model that transformers loads."
        )
    if not list(path.glob("*.safetensors")):
        others = [*path.glob("*.bin"), *path.glob("*.pt")]
        more = " Its .bin or .pt files can run code when they are read: convert them to safetensors." if others else ""
        raise UserError(f"{path} has no .safetensors file.{more}")
    return Source(str(path))


def open_model(name: str, dtype: str = "float32", remote_code: bool = False) -> Opened:
    """The model, probed, and its tokenizer. Everything that can go wrong on the way is a sentence."""
    if dtype not in DTYPES:
        raise UserError(f'dtype "{dtype}" is unknown. Known: {", ".join(DTYPES)}.')
    hf, source = transformers(), find(name)
    with quiet(hf):
        config = _config(hf, source, remote_code)
        refuse_other_kinds(config, source, remote_code)
        tokenizer = _tokenizer(hf, source, remote_code)
        model = _model(hf, source, config, DTYPES[dtype], remote_code)
    model.requires_grad_(False).eval()
    return Opened(Adapter(model), tokenizer, source)


@contextmanager
def quiet(hf: Any) -> Iterator[None]:
    """Only errors from transformers, and no progress bars."""
    verbosity = hf.utils.logging.get_verbosity()
    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):  # the bar of GGUF files cannot be switched off
            warnings.simplefilter("ignore")
            yield
    finally:
        hf.utils.logging.set_verbosity(verbosity)


def _config(hf: Any, source: Source, remote_code: bool) -> Any:
    try:
        return hf.AutoConfig.from_pretrained(source.name, trust_remote_code=remote_code, **source.options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        if not remote_code and ("remote" in str(error) or _brings_code(source)):
            raise _needs_code(source) from None
        raise UserError(f"{source.label}: the configuration cannot be read: {_first(error)}") from None


def refuse_other_kinds(config: Any, source: Source, remote_code: bool) -> None:
    """Encoder-decoders, and what transformers has no causal model for."""
    kind = getattr(config, "model_type", "?")
    if getattr(config, "is_encoder_decoder", False):
        raise UserError(
            f"{source.label} is an encoder-decoder ({kind}). Audits and scores are for decoder-only language models."
        )
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as known

    if kind not in known and not remote_code:
        if _brings_code(source):
            raise _needs_code(source)
        raise UserError(f"{source.label} is no causal language model: transformers has none for the type {kind}.")


def _brings_code(source: Source) -> bool:
    path = Path(source.name) / "config.json"
    table = read_json(path) if path.is_file() else {}
    return isinstance(table, dict) and "auto_map" in table


def _needs_code(source: Source) -> UserError:
    return UserError(
        f"{source.label} brings its own Python code, which is not run unless you ask for it: read the code, then add --remote-code."
    )


def _tokenizer(hf: Any, source: Source, remote_code: bool) -> Any:
    try:
        made = hf.AutoTokenizer.from_pretrained(source.name, trust_remote_code=remote_code, **source.options)
    except Exception as error:  # a missing file shows itself in many ways
        raise UserError(
            f"{source.label}: the tokenizer is missing or cannot be read ({_first(error)}). Put its files, such as tokenizer.json, "
            "into the model's folder."
        ) from None
    if made is None or not made.is_fast or not len(made):
        raise UserError(
            f"{source.label}: no tokenizer with character offsets (tokenizer.json) was found in the model's folder."
        )
    return made


def _model(hf: Any, source: Source, config: Any, dtype: torch.dtype, remote_code: bool) -> Any:
    safe = {} if source.gguf else {"use_safetensors": True}
    try:
        return hf.AutoModelForCausalLM.from_pretrained(
            source.name, dtype=dtype, trust_remote_code=remote_code, **safe, **source.options
        )
    except (ImportError, ValueError, RuntimeError, OSError, KeyError, NotImplementedError) as error:
        stored = getattr(config, "quantization_config", None)
        how = (
            (stored or {}).get("quant_method", "?")
            if isinstance(stored, dict)
            else getattr(stored, "quant_method", None)
        )
        if stored is not None:
            raise UserError(
                f"{source.label}: its weights are quantized ({how}) and cannot be read here: {_first(error)} "
                "Use the unquantized weights, or a GGUF file."
            ) from None
        raise UserError(f"{source.label}: the weights cannot be read: {_first(error)}") from None


def _first(error: Exception) -> str:
    """The first line of an error that says something, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__)[:300]
    return text if text.endswith((".", "!", "?")) else text + "."
