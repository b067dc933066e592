from pymq.client.app import App as App

__version__: str
