"""Pictures of a store: Vega-Lite charts made from the metadata, exported as SVG, PNG or HTML."""
