"""Criteria: losses of predictions, summed by objective."""

from toolkit.criteria.criterion import IGNORED as IGNORED
from toolkit.criteria.criterion import Binary as Binary
from toolkit.criteria.criterion import Classes as Classes
from toolkit.criteria.criterion import Criterion as Criterion
from toolkit.criteria.criterion import LazyPrediction as LazyPrediction
from toolkit.criteria.criterion import MaskedClasses as MaskedClasses
from toolkit.criteria.criterion import Prediction as Prediction
from toolkit.criteria.criterion import ProjectedClasses as ProjectedClasses
from toolkit.criteria.criterion import Values as Values
from toolkit.criteria.criterion import compute_logits as compute_logits
from toolkit.criteria.criterion import project as project
