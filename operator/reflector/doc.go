// Package reflector keeps a local copy of a collection of API objects up to date by a list followed
// by watches.
//
// # Model
//
// [Machine] implements only the protocol: it has no clock, does no I/O and starts no goroutines.
// Its inputs are events (a page of a list, a watch event, a failure …); its outputs are the deltas
// for the copy and the next action.
//
//	          ┌────────────────────────── expired, kind gone, no watch ───────────────┐
//	          ▼                                                                       │
//	Start → streaming ──(refused, cut short)──▶ listing ──(last page: Replace)──▶ watching ⟲ Add, Update, Delete, Bookmark
//	          │                                                                       ▲
//	          └──────────────(end of the initial events: Replace)────────────────────┘
//	any failure → waiting → back to the previous state: a watch resumes after the last version, a list starts over
//
// It relies on these rules of the API: a watch from version v delivers every change after v once
// and in order; 410 means that v is too old; a bookmark means that all changes up to its version
// were delivered; with sendInitialEvents, a watch starts with the current state, followed by a
// bookmark with the annotation k8s.io/initial-events-end (KEP-3157).
//
// A server that was restored from a backup breaks the first rule. A [Versioned] source detects
// that.
//
// [Reflector] runs a machine: it calls the [Source], waits, and passes the deltas to a [Sink], all
// in the goroutine that calls Run.
//
//	r := reflector.New(reflector.Config[*corev1.Pod]{Source: pods, Sink: queue})
//	go r.Run(ctx)
package reflector
