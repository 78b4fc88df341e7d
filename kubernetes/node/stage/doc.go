// Package stage implements KWOK's Stage API (kwok.x-k8s.io/v1alpha1), which scripts what objects
// do: a Stage selects objects in a certain state, waits, and moves them to the next state.
//
//	selector ──▶ weight (one of those that match) ──▶ delay ──▶ steps: event, finalizers, patch,
//	   ▲                                                         apply, delete
//	   └────────────────────── the changed object ◀──────────────────┘
//
// The package is pure: it decides which Stage applies to an object, after what delay, and what the
// steps are. Package kelson.dev/kubernetes/controllers/stages carries them out.
//
// A [Stage] is the object as users write it; [Compile] checks it and compiles its expressions and
// templates. A [Lifecycle] is all Stages of a kind.
//
// # Compatibility
//
// Unmodified Stages of KWOK v0.8.0 run: selectors with jq and CEL, weightFrom, durationFrom, next
// with its deprecated statusTemplate, and steps. Templates are Go templates with KWOK's functions
// and those of sprig, without the ones that read the environment or the network (env, expandenv,
// getHostByName). Differences: jq results that are numbers match values with the same digits; CEL
// has no Quantity function.
//
// Values of the package are immutable and safe for concurrent use.
package stage
