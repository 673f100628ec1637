// The model of a folder, whichever kind it is of.

import { Model } from "./generate.js";
import { Predictor } from "./predict.js";

/** A model that answers texts by `generate`; see `Model.open` and `Predictor.open`. */
export function openModel(runtime, files) {
  const { kind } = JSON.parse(new TextDecoder().decode(files["config.json"]));
  return (kind === "encoder_only" ? Predictor : Model).open(runtime, files);
}
