"""The paper's tables with agggen's numbers beside the published ones, from run records or new trainings."""
