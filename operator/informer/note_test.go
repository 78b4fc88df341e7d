package informer

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/store"
)

// Responses to writes of one object arrive in any order, and the informer sees the changes at any
// time between them. Reads return the newest state of both.
//
// A step is "see A5", "see ~A5" or "see -A6" (the informer sees uid A at version 5, the same with a
// deletion timestamp, its deletion at 6), "bookmark 9", or a note: "present A5", "gone A5", "gone
// A" (version not known), "gone A/B" (and B before it), "behind A5", "outdated A5". The last line
// is the result of a read: a state, "nothing", or "waits".
func TestNotes(t *testing.T) {
	for name, tt := range map[string]struct{ steps, want string }{
		"create":                            {"present A5", "A5"},
		"create, response after its event":  {"see A5, present A5, see A7", "A7"},
		"update, response after its event":  {"see A5, see A7, present A6", "A7"},
		"responses in the wrong order":      {"present A7, present A6", "A7"},
		"wrong order, first update seen":    {"present A7, see A6, present A6", "A7"},
		"delete":                            {"see A5, gone A5", "nothing"},
		"delete, unseen":                    {"present A5, gone A5", "nothing"},
		"delete, then its creation is seen": {"present A5, gone A5, see A5", "nothing"},
		"delete, then both events are seen": {"present A5, gone A5, see A5, see -A6", "nothing"},
		"delete, response after its event":  {"see A5, see -A6, gone A5, see B7", "B7"},
		"update after delete":               {"see A5, gone A5, present A6", "nothing"},
		"delete without version":            {"gone A, see A5", "nothing"},
		"delete without version, unseen":    {"gone A, bookmark 9, see A10", "nothing"},
		"another object follows":            {"see A5, gone A5, see -A6, see B7", "B7"},
		"created again":                     {"see A5, gone A5, present B7", "B7"},
		"created again, behind":             {"see A5, gone A5, present B7, see -A6", "B7"},
		"created again, late response":      {"see A5, present B7, gone A5", "B7"},
		"created again, late, no version":   {"see A5, present B7, gone A", "B7"},
		"deleted again":                     {"see A5, gone A5, present B7, gone B7", "nothing"},
		"deleted again, first one seen":     {"gone A5, present B7, gone B7, see A5", "nothing"},
		"deleted again, second one seen":    {"gone A5, present B7, gone B7, see A5, see -A6, see B7", "nothing"},
		"deleted again, all seen": {
			"gone A5, present B7, gone B7, see A5, see -A6, see B7, see -B8, see C9", "C9"},
		"unknown object deleted":                {"see A5, gone B/A", "nothing"},
		"unknown object deleted, then seen":     {"see A5, gone B/A, see -A6, see B7", "nothing"},
		"unknown object deleted, then all seen": {"see A5, gone B/A, see -A6, see B7, see -B8, see C9", "C9"},
		"late response for the earlier object":  {"see A5, gone B/A, present A4", "nothing"},
		"other form":                            {"see A5, behind A7", "waits"},
		"other form, seen":                      {"see A5, behind A7, see A7", "A7"},
		"other form, passed":                    {"see A5, behind A7, bookmark 8", "A5"},
		"other form, then known":                {"behind A7, present A7", "A7"},
		"known, then other form":                {"present A7, behind A7", "A7"},
		"outdated":                              {"see A5, outdated A5", "waits"},
		"outdated, unseen":                      {"outdated A5", "waits"},
		"outdated, seen":                        {"see A5, outdated A5, see A7", "A7"},
		"outdated, gone":                        {"see A5, outdated A5, see -A6", "nothing"},
		"outdated, end seen":                    {"see A5, outdated A5, see ~A6", "waits"},
		"outdated, both ends seen":              {"see A5, outdated A5, see ~A6, see -A7", "nothing"},
		"outdated own write":                    {"present A5, outdated A5", "waits"},
		"outdated, newer state seen":            {"see A8, outdated A5", "A8"},
		// a bookmark that follows the write, without its event: the object does not exist
		"bookmark is enough": {"present A5, bookmark 5", "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInformerForTest()
			p := &part{informer: i, synced: true}
			i.parts = []*part{p}
			for _, step := range strings.Split(tt.steps, ", ") {
				play(t, i, p, step)
			}
			assert.Equalf(t, found(i), tt.want, "found")
		})
	}
}

func newInformerForTest() *informer {
	return &informer{
		objs: store.NewIndexer(store.Config[client.Key, client.Object]{Key: func(obj client.Object) client.Key {
			return client.KeyOf(obj)
		}}),
		written:  overlay{},
		unshown:  &atomic.Bool{},
		log:      slog.New(slog.DiscardHandler),
		isSynced: true,
	}
}

var theKey = client.Key{Namespace: "default", Name: "x"}

func parseState(text string) *corev1.Pod {
	text, ending := strings.CutPrefix(text, "~")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: types.UID(text[:1]),
		ResourceVersion: text[1:]}}
	if ending {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return pod
}

func play(t *testing.T, i *informer, p *part, step string) {
	verb, state, _ := strings.Cut(step, " ")
	if verb == "bookmark" {
		p.Bookmark(state)
		return
	}
	if verb == "see" {
		if deleted, ok := strings.CutPrefix(state, "-"); ok {
			p.Delete(parseState(deleted))
		} else {
			p.Update(parseState(state))
		}
		return
	}
	kind, ok := map[string]entryKind{"present": present, "gone": gone, "behind": behind, "outdated": outdated}[verb]
	if !ok {
		t.Fatalf("step %q", step)
	}
	state, before, _ := strings.Cut(state, "/")
	obj := parseState(state)
	e := entry{kind: kind, uid: obj.UID, before: types.UID(before)}
	e.version, _ = strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if kind == present {
		e.obj = obj
	}
	i.addEntry(theKey, e)
}

func found(i *informer) string {
	obj, _ := i.objs.Get(theKey)
	if e, isPending := i.pending(theKey); isPending {
		switch e.kind {
		case behind, outdated:
			return "waits"
		case gone:
			return "nothing"
		}
		obj = e.obj
	}
	if obj == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s%s", obj.GetUID(), obj.GetResourceVersion())
}
