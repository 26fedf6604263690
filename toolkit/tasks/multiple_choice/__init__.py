"""Multiple choice: RACE, SWAG, CODAH."""
