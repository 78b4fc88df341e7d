package reflector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

type object = *metav1.PartialObjectMetadata

func obj(name string, version int) object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name,
		ResourceVersion: strconv.Itoa(version)}}
}

var (
	errExpired = apierrors.NewResourceExpired("too old")
	errServer  = apierrors.NewInternalError(fmt.Errorf("broken"))
	errRefused = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	errMissing = apierrors.NewNotFound(schema.GroupResource{}, "")
	errBusy    = apierrors.NewTooManyRequests("busy", 7)
)

// simulation has the reference, a server with its complete history, the connection to it, and a
// machine whose copy is compared with the history after each delta. The function choose decides
// what happens.
type simulation struct {
	t      *testing.T
	choose func(n int) int
	names  int
	said   []string

	history   []map[string]int // by revision: name → version
	changes   []Change[object] // by revision
	compacted int
	streams   bool

	machine   Machine[object]
	next      Next
	copy      map[string]int
	version   int // of the copy
	listed    int // revision of the list whose pages are being read
	watching  int // revision up to which the open watch has delivered; -1 if there is none
	initial   []string
	ending    bool // the initial events are delivered, but not their end
	impatient int  // failures since the last wait or progress
}

func newSimulation(t *testing.T, names int, choose func(int) int) *simulation {
	w := &simulation{t: t, choose: choose, names: names, history: []map[string]int{{}},
		changes: make([]Change[object], 1), copy: map[string]int{}, version: -1, watching: -1}
	w.streams = choose(2) == 0
	w.machine = Machine[object]{Stream: choose(2) == 0, PageSize: int64(choose(2))}
	w.change()
	w.step(Start[object]{}, "start")
	return w
}

func (w *simulation) now() int { return len(w.history) - 1 }

// change puts or deletes one of a few objects.
func (w *simulation) change() {
	state := maps.Clone(w.history[w.now()])
	revision := len(w.history)
	name := string(rune('a' + w.choose(w.names)))
	_, exists := state[name]
	c := Change[object]{Type: watch.Added, Object: obj(name, revision), Version: strconv.Itoa(revision)}
	switch {
	case exists && w.choose(2) == 0:
		c.Type = watch.Deleted
		delete(state, name)
	case exists:
		c.Type = watch.Modified
		state[name] = revision
	default:
		state[name] = revision
	}
	w.history, w.changes = append(w.history, state), append(w.changes, c)
	w.said = append(w.said, fmt.Sprintf("%s %s at %d", c.Type, name, revision))
}

// step passes an input to the machine and checks its output.
func (w *simulation) step(in Input[object], said string) {
	w.said = append(w.said, said)
	deltas, next := w.machine.Step(in)
	for _, d := range deltas {
		w.check(d)
	}
	if next.Do == Wait || len(deltas) > 0 && deltas[0].Op != Replace {
		w.impatient = 0
	}
	if w.impatient > 3 {
		w.fail("%d failures without a pause", w.impatient)
	}
	if next.Do != Read {
		w.watching, w.initial, w.ending = -1, nil, false
	}
	w.next = next
}

func (w *simulation) fail(format string, args ...any) {
	w.t.Helper()
	for _, s := range w.said {
		w.t.Log(s)
	}
	w.t.Fatalf(format, args...)
}

// check verifies after each delta that the copy equals the server's collection at the delta's
// version, and that nothing is delivered twice.
func (w *simulation) check(d Delta[object]) {
	version, _ := strconv.Atoi(d.Version)
	if version < w.version || version == w.version && d.Op != Replace && d.Op != Bookmark {
		w.fail("version %d after %d", version, w.version)
	}
	switch d.Op {
	case Add, Update:
		v, _ := strconv.Atoi(d.Object.ResourceVersion)
		w.copy[d.Object.Name] = v
	case Delete:
		delete(w.copy, d.Object.Name)
	case Replace:
		w.copy = map[string]int{}
		for _, item := range d.Items {
			if _, twice := w.copy[item.Name]; twice {
				w.fail("%s is there twice", item.Name)
			}
			w.copy[item.Name], _ = strconv.Atoi(item.ResourceVersion)
		}
	}
	w.version = version
	if !maps.Equal(w.copy, w.history[version]) {
		w.fail("at %d the copy is %v, the server was %v", version, w.copy, w.history[version])
	}
}

// move performs one step. An honest server executes the request; otherwise anything may happen.
func (w *simulation) move(honest bool) {
	if !honest {
		switch w.choose(7) {
		case 0:
			w.change()
			return
		case 1:
			w.compacted = w.now()
			w.said = append(w.said, "compact")
			return
		case 2:
			w.failure()
			return
		case 3:
			if w.choose(4) == 0 {
				w.step(Start[object]{}, "restart")
				return
			}
		}
	}
	switch w.next.Do {
	case Wait:
		w.step(Waited[object]{}, "waited")
	case List:
		w.list()
	case Watch:
		w.open()
	case Read:
		w.deliver(honest)
	}
}

func (w *simulation) failure() {
	err := []*apierrors.StatusError{errServer, errBusy, errExpired, errRefused, errMissing}[w.choose(5)]
	switch {
	case w.next.Do == Wait:
		return
	case w.next.Do == Read && w.choose(2) == 0:
		early := w.choose(2) == 0
		if early {
			w.impatient++
		} else {
			w.impatient = 0 // a watch of normal length counts as a pause
		}
		w.step(Closed[object]{Early: early}, fmt.Sprintf("closed, early: %v", early))
		return
	case err == errRefused:
		w.impatient-- // only once; the next request is a different one
	}
	w.impatient++
	w.step(Failure[object]{err}, "failure: "+err.Error())
}

func (w *simulation) list() {
	if w.next.Continue == "" {
		w.listed = w.now()
	} else if w.listed < w.compacted {
		w.impatient++
		w.step(Failure[object]{errExpired}, "token expired")
		return
	}
	names := slices.Sorted(maps.Keys(w.history[w.listed]))
	from, _ := strconv.Atoi(w.next.Continue)
	to := len(names)
	page := Page[object]{Version: strconv.Itoa(w.listed)}
	if limit := int(w.next.Limit); limit > 0 && from+limit < to {
		to = from + limit
		page.Continue = strconv.Itoa(to)
	}
	for _, name := range names[from:to] {
		page.Items = append(page.Items, obj(name, w.history[w.listed][name]))
	}
	w.step(page, fmt.Sprintf("page %d-%d at %d", from, to, w.listed))
}

func (w *simulation) open() {
	if w.next.InitialEvents {
		if !w.streams {
			w.step(Failure[object]{errRefused}, "no streaming")
			return
		}
		w.watching, w.ending = w.now(), true
		w.initial = slices.Sorted(maps.Keys(w.history[w.watching]))
		w.next = Next{Do: Read}
		return
	}
	from, _ := strconv.Atoi(w.next.Version)
	if from < w.compacted {
		w.impatient++
		w.step(Failure[object]{errExpired}, "too old")
		return
	}
	w.watching = from
	w.next = Next{Do: Read}
}

// deliver sends the next event of the open watch. Initial events may be interleaved with later
// changes.
func (w *simulation) deliver(honest bool) {
	if len(w.initial) > 0 {
		// An initial event may show a later state than that at the start of the watch; the change
		// is then delivered again.
		name := w.initial[0]
		w.initial = w.initial[1:]
		if v, ok := w.history[w.watching][name]; ok {
			w.step(Change[object]{Type: watch.Added, Object: obj(name, v), Version: strconv.Itoa(v)}, "initial "+name)
		}
		return
	}
	if w.watching < w.now() && (honest || w.choose(3) > 0) {
		if w.watching < w.compacted {
			w.impatient++
			w.step(Failure[object]{errExpired}, "fell behind")
			return
		}
		w.watching++
		w.step(w.changes[w.watching], fmt.Sprintf("event %d", w.watching))
		return
	}
	if w.ending {
		w.ending = false
		w.step(Change[object]{Type: watch.Bookmark, Version: strconv.Itoa(w.watching), InitialEnd: true},
			"end of initial events")
		return
	}
	if w.watching == w.now() {
		w.step(Change[object]{Type: watch.Bookmark, Version: strconv.Itoa(w.watching)}, "bookmark")
	}
}

// settle checks that the copy soon equals the collection after faults and changes have ended.
func (w *simulation) settle() {
	w.said = append(w.said, "settle")
	w.streams = true
	for n := 0; n < 30 && (w.version != w.now() || w.next.Do != Read); n++ {
		w.move(true)
	}
	if w.version != w.now() || w.next.Do != Read {
		w.fail("settled at %d of %d, doing %d", w.version, w.now(), w.next.Do)
	}
}

// All interleavings of a few steps.
func TestEveryInterleaving(t *testing.T) {
	const depth = 3
	// tape has the choices of one run; the next run changes the last choice that has an
	// alternative.
	type choice struct{ chosen, alternatives int }
	var tape []choice
	runs := 0
	for {
		at := 0
		w := newSimulation(t, 2, func(n int) int {
			if at == len(tape) {
				tape = append(tape, choice{0, n})
			}
			at++
			return tape[at-1].chosen
		})
		for range depth {
			w.move(false)
		}
		w.settle()
		runs++
		tape = tape[:at]
		for len(tape) > 0 && tape[len(tape)-1].chosen+1 == tape[len(tape)-1].alternatives {
			tape = tape[:len(tape)-1]
		}
		if len(tape) == 0 {
			break
		}
		tape[len(tape)-1].chosen++
	}
	t.Logf("%d runs", runs)
}

// Long random walks.
func TestRandomWalks(t *testing.T) {
	first := randomtest.Seed(t)
	for n := range uint64(2000) {
		seed := first + n
		random := rand.New(rand.NewPCG(seed, 0))
		w := newSimulation(t, 3, random.IntN)
		w.said = append(w.said, fmt.Sprintf("seed %d", seed))
		for range 100 {
			w.move(false)
		}
		w.settle()
	}
}

// Transcripts of the important cases, step by step.
func TestTranscripts(t *testing.T) {
	type exchange struct {
		in   Input[object]
		want Next
	}
	first := Start[object]{}
	end := Change[object]{Type: watch.Bookmark, Version: "5", InitialEnd: true}
	stream := Next{Do: Watch, InitialEvents: true}
	full := Next{Do: List, Limit: 10}
	resume := Next{Do: Watch, Version: "5"}
	page := Next{Do: List, Limit: 10, Continue: "x"}
	for name, steps := range map[string][]exchange{
		"streams and watches on": {{first, stream}, {end, Next{Do: Read}}, {Closed[object]{}, resume}},
		"is refused, then lists": {{first, stream}, {Failure[object]{errRefused}, full},
			{Page[object]{Version: "5"}, resume}, {first, full}},
		"is cut short, then lists": {{first, stream}, {Closed[object]{}, Next{Do: Wait, Failures: 1}},
			{Waited[object]{}, full}, {Page[object]{Version: "5"}, resume}, {first, stream}},
		"server fails, then streams": {{first, stream}, {Failure[object]{errServer}, Next{Do: Wait, Failures: 1}},
			{Waited[object]{}, stream}, {Failure[object]{errServer}, Next{Do: Wait, Failures: 2}}},
		"server says when": {{first, stream},
			{Failure[object]{errBusy}, Next{Do: Wait, Failures: 1, AtLeast: 7 * time.Second}}},
		"a page is refused": {{first, stream}, {Failure[object]{errRefused}, full},
			{Page[object]{Version: "5", Continue: "x"}, page},
			{Failure[object]{errBusy}, Next{Do: Wait, Failures: 1, AtLeast: 7 * time.Second}}, {Waited[object]{}, page},
			{Failure[object]{errBusy}, Next{Do: Wait, Failures: 2, AtLeast: 7 * time.Second}}, {Waited[object]{}, page},
			{Page[object]{Version: "5"}, resume}},
		"a page is refused, restart": {{first, stream}, {Failure[object]{errRefused}, full},
			{Page[object]{Version: "5", Continue: "x"}, page},
			{Failure[object]{errBusy}, Next{Do: Wait, Failures: 1, AtLeast: 7 * time.Second}}, {first, full},
			{Failure[object]{errBusy}, Next{Do: Wait, Failures: 1, AtLeast: 7 * time.Second}},
			{Waited[object]{}, full}},
		"expired once, then waits": {{first, stream}, {end, Next{Do: Read}}, {Failure[object]{errExpired}, stream},
			{end, Next{Do: Read}}, {Failure[object]{errExpired}, Next{Do: Wait, Failures: 2}}},
		"kind is gone": {{first, stream}, {end, Next{Do: Read}},
			{Failure[object]{apierrors.NewNotFound(schema.GroupResource{}, "")}, Next{Do: Wait, Failures: 1}},
			{Waited[object]{}, stream}},
		"resumes after a failure": {{first, stream}, {end, Next{Do: Read}},
			{Failure[object]{errServer}, Next{Do: Wait, Failures: 1}}, {Waited[object]{}, resume}},
		"ends too early, again": {{first, stream}, {end, Next{Do: Read}},
			{Closed[object]{Early: true}, Next{Do: Wait, Failures: 1}}, {Waited[object]{}, resume},
			{Closed[object]{Early: true}, Next{Do: Wait, Failures: 2}}, {Waited[object]{}, resume},
			{Closed[object]{}, resume}, {Closed[object]{Early: true}, Next{Do: Wait, Failures: 1}}},
		"the server's history is new": {{first, stream}, {end, Next{Do: Read}}, {Closed[object]{}, resume},
			{Failure[object]{errTooLarge()}, stream}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Machine[object]{Stream: true, PageSize: 10}
			for n, step := range steps {
				_, next := m.Step(step.in)
				require.Equalf(t, next, step.want, "step %d, %T", n, step.in)
			}
		})
	}
}

func errTooLarge() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusGatewayTimeout,
		Reason:  metav1.StatusReasonTimeout,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}}}
}

// If the token of a page expires, the machine discards the pages and lists in one piece.
func TestTokenThatExpires(t *testing.T) {
	m := Machine[object]{PageSize: 1}
	m.Step(Start[object]{})
	m.Step(Page[object]{Items: []object{obj("a", 1)}, Version: "5", Continue: "x"})
	_, next := m.Step(Failure[object]{errExpired})
	if next != (Next{Do: List}) {
		t.Fatalf("got %+v, want a list in one piece", next)
	}
	deltas, _ := m.Step(Page[object]{Items: []object{obj("b", 6)}, Version: "6"})
	if len(deltas) != 1 || len(deltas[0].Items) != 1 || deltas[0].Items[0].Name != "b" {
		t.Errorf("got %+v, want the first attempt discarded", deltas)
	}
}
