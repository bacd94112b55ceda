"""One step's gradients summed over all processes, so that the step is that of one process with all streams.

Three exchanges a step: a few numbers of each process (its losses, the first one's clock, which gradients are dense and how
many rows the others have); the dense gradients, large ones where they are, small ones in one flat buffer; the rows of the
sparse ones, gathered as they are and summed by row afterwards. A gradient that is dense in one process is exchanged as a dense one.

Every process ends with the same bits: sums are made in the order of the processes, or once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from selfnorm._util.processes import Processes, gathered
from selfnorm.nn.encoders import State
from selfnorm.nn.model import LanguageModel

NONE, DENSE = -2, -1  # instead of a number of rows
LARGE = 1 << 18  # elements: such a gradient is added up where it is, without copying it into the buffer


class Exchange:
    """What the processes of a training tell each other."""

    def __init__(self, processes: Processes) -> None:
        self.size, self.device = processes.size, processes.device
        self.now = (
            time.monotonic()
        )  # of the first process, when all have last met: decisions by the clock are made together
        self.sent = {
            "dense": 0,
            "sparse": 0,
            "numbers": 0,
        }  # bytes that this process has given to the others, all steps

    def same_start(self, model: LanguageModel) -> None:
        """Everybody starts from the weights of the first: machines may differ in a last digit."""
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)
        self.now = self._told([time.monotonic()])[0][0]

    def __call__(self, parameters: Sequence[nn.Parameter], losses: Sequence[Tensor]) -> list[float]:
        """Put the sums over all processes into the gradients; returns the sums of the losses."""
        for parameter in parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
        mine = [*torch.stack(list(losses)).tolist(), time.monotonic(), *(_code(p.grad) for p in parameters)]
        told = self._told(mine)
        self.now, count = told[0][len(losses)], len(losses) + 1
        codes = [[int(row[count + i]) for row in told] for i in range(len(parameters))]
        dense = [p for p, code in zip(parameters, codes, strict=True) if DENSE in code]
        rows = [(p, code) for p, code in zip(parameters, codes, strict=True) if max(code) >= 0 and DENSE not in code]
        self._dense(dense)
        self._rows([p for p, _ in rows], [code for _, code in rows])
        return [sum(row[i] for row in told) for i in range(len(losses))]

    def whole_state(self, state: State | None) -> State | None:
        """The state of all streams, from those of every process; axis 1 is the stream."""
        if state is None:
            return None
        return [tuple(torch.cat(gathered(part, self.size), dim=1) for part in layer) for layer in state]

    def _told(self, numbers: Sequence[float]) -> list[list[float]]:
        mine = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        self.sent["numbers"] += mine.nbytes
        return [part.tolist() for part in gathered(mine, self.size)]

    def _dense(self, parameters: list[nn.Parameter]) -> None:
        for parameter in parameters:
            parameter.grad = _as_dense(parameter).contiguous()
        gradients = [p.grad for p in parameters if p.grad is not None]
        self.sent["dense"] += sum(g.nbytes for g in gradients)
        small = [g for g in gradients if g.numel() < LARGE]
        works = [dist.all_reduce(g, async_op=True) for g in gradients if g.numel() >= LARGE]
        if small:
            flat = torch.cat([g.view(-1) for g in small])
            dist.all_reduce(flat)
            for gradient, part in zip(small, torch.split(flat, [g.numel() for g in small]), strict=True):
                gradient.copy_(part.view_as(gradient))
        for work in works:
            work.wait()

    def _rows(self, parameters: list[nn.Parameter], codes: list[list[int]]) -> None:
        """Rows of all parameters one after the other, filled up to the longest of all processes."""
        if not parameters:
            return
        counts = [[max(0, code[rank]) for code in codes] for rank in range(self.size)]
        widths = [p.numel() // len(p) for p in parameters]
        gradients = [p.grad for p in parameters if p.grad is not None]
        places = [g.indices()[0].to(torch.int32) for g in gradients]
        values = [g.values().reshape(-1) for g in gradients]
        longest = max(map(sum, counts))
        largest = max(sum(n * width for n, width in zip(row, widths, strict=True)) for row in counts)
        all_places, all_values = self._filled(places, longest), self._filled(values, largest)
        for index, parameter in enumerate(parameters):
            places, values = [], []
            for rank, row in enumerate(counts):
                start = sum(row[:index])
                at = sum(n * width for n, width in zip(row[:index], widths, strict=False))
                places.append(all_places[rank][start : start + row[index]])
                values.append(
                    all_values[rank][at : at + row[index] * widths[index]].view(row[index], *parameter.shape[1:])
                )
            indices, summands = torch.cat(places).long().unsqueeze(0), torch.cat(values)
            parameter.grad = torch.sparse_coo_tensor(indices, summands, parameter.shape, check_invariants=False)

    def _filled(self, parts: list[Tensor], size: int) -> list[Tensor]:
        flat = torch.cat(parts)
        self.sent["sparse"] += flat.nbytes
        return gathered(torch.cat([flat, flat.new_zeros(size - len(flat))]), self.size)


def _code(gradient: Tensor | None) -> int:
    return NONE if gradient is None else len(gradient.values()) if gradient.is_sparse else DENSE


def _as_dense(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient.to_dense() if gradient.is_sparse else gradient
