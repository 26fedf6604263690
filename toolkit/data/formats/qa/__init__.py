"""Reading comprehension: SQuAD, RACE and SWAG."""
