/** The types that the page's modules share, by their names everywhere. */
import type * as described from "./description.js";
import type * as colours from "./elements/colours.js";
import type * as exported from "./page/export.js";
import type * as frames from "./sources/frames.js";
import type * as kernel from "./engine/kernel.js";
import type * as lifetime from "./elements/lifetime.js";
import type * as served from "./sources/served.js";
import type * as state from "./page/state.js";
import type * as views from "./page/views.js";
import type * as votes from "./maths/votes.js";
import type * as words from "./elements/words.js";

declare global {
  type Description = described.Description;
  type RoleAnswer = described.RoleAnswer;
  type RoleQuestion = described.RoleQuestion;
  type HeadRoles = described.HeadRoles;
  type Measure = described.Measure;
  type Colours = colours.Colours;
  type Frame = frames.Frame;
  type FrameArray = frames.FrameArray;
  type HeadVote = votes.HeadVote;
  type Lifetime = lifetime.Lifetime;
  type Source = served.Source;
  type Chosen = state.Chosen;
  type State = state.State;
  type Context = views.Context;
  type Drawn = views.Drawn;
  type News = views.News;
  type Other = views.Other;
  type Real = kernel.Real;
  type Services = views.Services;
  type Table = exported.Table;
  type Tensor = kernel.Tensor;
  type View = views.View;
  type Unit = words.Unit;
  /** A model of the studio; `here`: on this machine. */
  type ListedModel = { name: string; here: boolean; size: number; licence?: string; [more: string]: unknown };
  /** Tokens [first, last). */
  type TokenRange = { first: number; last: number };
  /** Which keys a query may see. */
  type Masking = Partial<LayerMask & Pick<Description, "first_query">>;
  /** One head of a model, by position. */
  type HeadPlace = { layer: number; head: number };
}
