from toolkit.criteria.criterion import IGNORED as IGNORED
from toolkit.criteria.criterion import Binary as Binary
from toolkit.criteria.criterion import Classes as Classes
from toolkit.criteria.criterion import Criterion as Criterion
from toolkit.criteria.criterion import MaskedClasses as MaskedClasses
from toolkit.criteria.criterion import Prediction as Prediction
from toolkit.criteria.criterion import Values as Values
