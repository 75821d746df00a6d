-- MLflow's accounts, beside its runs.
CREATE DATABASE mlflow_auth;
