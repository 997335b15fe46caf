// Written by docs/write_types.py from viewer/description.py: `make types`.

export type Kind = "reading" | "trace" | "lookup";

export type Measure = "weight" | "norm" | "mean" | "rollout";

/** Of the first layer; None where there is no attention. */
export interface Sizes {
  heads: number;
  key_heads: number | null; // fewer than heads where heads share keys
  head_dim: number | null;
  value_dim: number | null;
  scale: number | null; // that scores are multiplied by
  softcap: number | null;
  mask: string | null; // the expression that makes it
  causal: boolean;
  window: number | null; // keys that a query sees, its own among them
}

/** The keys that queries of a layer may see, in some head: by a causal mask with a window, or by intervals. */
export interface LayerMask {
  causal: boolean;
  window: number | null; // keys that a query sees, its own among them
  visible: number[][] | null; // of each query the ends of intervals [first, last); None: by causal and window
}

/** Where a page opens. */
export interface Start {
  layer?: number;
  head?: number;
  query?: number; // a token
  view?: string; // where a place was chosen; without it, a page opens with its first screen
}

/** See `regard.reading.certificate.Certificate`. */
export interface CertificateNumbers {
  row_sums: number;
  forbidden: number;
  output: number;
  rows: number;
  line: string;
  unverified: string;
}

/** The layers and heads that a page holds; None is all of them. */
export interface KeptParts {
  layers: number[] | null;
  heads: number[] | null;
}

/** How often a head finds a relation, beside simpler ways: see `regard.heads.roles.Role`. */
export interface RoleScore {
  relation: string;
  group: string;
  direction: string;
  layer: number;
  head: number;
  accuracy: number;
  low: number;
  high: number;
  offset: number;
  offset_accuracy: number;
  untrained: number | null;
  words: number;
  choosing_gain: number;
  named: boolean;
}

/** A head, a link of the text that can be the relation, and how the head scores in general. */
export interface RoleAnswer {
  layer: number;
  head: number;
  query: number; // a token
  key: number;
  weight: number;
  arrow: string;
  scored: RoleScore | null;
  same: string; // other heads that score alike
  unscored: string | null; // why there is no score
}

/** A question to the heads, such as "whose". */
export interface RoleQuestion {
  name: string;
  answers: RoleAnswer[];
  nothing: string; // why there is no answer in this text
  example: string; // a text that has one
}

/** What the heads of a model do, in general and in this text. */
export interface HeadRoles {
  treebank: string;
  source: string;
  labels: string[][]; // per layer and head
  said: string[][];
  relations: string[][][][]; // per layer and head: relation, direction, arrow
  possible: Record<string, [string, string, number]>; // word classes of dependent and head, side of the head
  classes: string[][]; // per word
  asks: RoleQuestion[];
}

/** A small example: embeddings and W as in x · W, one matrix per head. */
export interface Editable {
  tokens: string[];
  embedding: number[][];
  note: string | null;
  w_q: number[][][];
  w_k: number[][][];
  w_v: number[][][];
  w_o: number[][] | null;
  b_q: number[][] | null; // one vector per head
  b_k: number[][] | null;
  b_v: number[][] | null;
  b_o: number[] | null;
}

/** A dictionary that is looked up softly. */
export interface LookupParts {
  keys: string[];
  values: string[];
  numbers: number[][] | null; // the values, where they are numbers
  vectors: number[][] | null; // the keys', where the page computes the similarity
  spelling: boolean; // keys are compared by their letters
  similarity: string;
  temperature: number;
  query: string | null;
}

/** What a page shows: tokens, sizes, masks, and the kinds of queries that can be answered. */
export interface Description {
  heads: number;
  key_heads: number | null;
  head_dim: number | null;
  value_dim: number | null;
  scale: number | null;
  softcap: number | null;
  mask: string | null;
  causal: boolean;
  window: number | null;
  format: number;
  kind: "reading" | "trace" | "lookup";
  title: string;
  text: string;
  model: string;
  source: string; // where the numbers come from
  tokens: string[];
  special: number[]; // tokens such as [CLS]
  joined: number[]; // tokens that continue the one before
  words: [number, number][]; // tokens [first, last)
  given: number | null; // tokens that were given: the model wrote the others
  stops: number[] | null; // where each token ends in the text, in UTF-16 units
  layers: number;
  layer_numbers: number[]; // in the model
  head_numbers: number[];
  sinks: number[]; // tokens
  queries: number;
  query_tokens: string[] | null; // where queries are not among the keys
  first_query: number | null; // the key position of query 0
  masks: LayerMask[]; // the different ones
  mask_of_layer: number[]; // by position in `masks`
  long: boolean;
  certificate: CertificateNumbers | null;
  has: string[];
  measures: ("weight" | "norm" | "mean" | "rollout")[];
  w_o: boolean; // norms are taken after W_O
  kept: KeptParts;
  editable: Editable | null;
  lookup: LookupParts | null;
  note: string | null;
  known: HeadRoles | null;
  start: Start | null;
  compared?: string[]; // sentences that a text is compared with
  site?: string; // the address of the site that a shared page comes from
}

/** A sequence that every snapshot of a training run reads. */
export interface Probe {
  text: string;
  tokens: string[];
  keys: number[]; // the right key of each query; −1 where the task has none
  relations: number[]; // which relation the query asks for; −1 for none
}

/** The header of a training page; None stands for numbers that are not finite. */
export interface TrainingHeader {
  title: string;
  about: string;
  steps: number[]; // of the snapshots, as are the next three
  loss: (number | null)[];
  test_loss: (number | null)[];
  answers: (number | null)[]; // the share of right answers
  layers: number;
  heads: number;
  relations: string[];
  probes: Probe[];
  causal: boolean;
  largest_weight: number; // weights are stored in 8 bits
}
