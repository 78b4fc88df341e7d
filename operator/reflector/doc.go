// Package reflector keeps a local copy of a collection of API objects up to date: a list, then a watch from there, for ever.
//
// # Model
//
// [Machine] is the protocol and nothing else: it has no clock, does no I/O and starts nothing. It is told what happened
// (a page of a list, an event, a failure …) and answers with the deltas for the copy and with the one thing to do next.
//
//	          ┌────────────────────────── expired, kind gone ─────────────────────────┐
//	          ▼                                                                       │
//	Start → streaming ──(refused, cut short)──▶ listing ──(last page: Replace)──▶ watching ⟲ Add, Update, Delete, Bookmark
//	          │                                                                       ▲
//	          └──────────────(end of the initial events: Replace)────────────────────┘
//	any failure → waiting → back to where it was: the watch resumes after the last version seen, a list begins anew
//
// Rules of the API it relies on: a watch from version v delivers every change after v once and in order; 410 says that v is
// too old; a bookmark says that everything up to its version was delivered; with sendInitialEvents a watch begins with the
// present state, closed by a bookmark that is annotated k8s.io/initial-events-end (KEP-3157).
//
// [Reflector] drives a machine: it calls the [Source], sleeps, and hands the deltas to a [Sink], all in the one goroutine that
// calls Run.
//
//	r := reflector.New(reflector.Config[*corev1.Pod]{Source: pods, Sink: queue})
//	go r.Run(ctx)
package reflector
