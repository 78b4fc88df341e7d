package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// largeTrace writes a trace with two marks for each reconcile, in bursts with long pauses.
func largeTrace(t testing.TB, reconciles int) string {
	t.Helper()
	var b strings.Builder
	at := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	for i := range reconciles {
		at = at.Add(time.Duration(1+i%7) * time.Millisecond)
		if i%5000 == 4999 {
			at = at.Add(6 * time.Hour)
		}
		object, failed := i%40, ""
		if i%97 == 0 {
			failed = `"error":"conflict",`
		}
		fmt.Fprintf(&b, `{"id":%d,"run":"r","time":%q,"controller":"c%d","kind":"Shop","namespace":"default","name":"shop-%02d","causes":[{"event":"update","kind":"Shop","namespace":"default","name":"shop-%02d","resourceVersion":"%d"}],`+
			`"writes":[{"verb":"apply","kind":"Deployment","namespace":"default","name":"shop-%02d","resourceVersion":"%d","changed":true}],%s"duration":"%dµs"}`+"\n",
			i+1, at.Format(time.RFC3339Nano), object%3, object, object, i+1, object, i+2, failed, 200+i%3000)
	}
	name := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
	return name
}

// A timeline of 50,000 marks is drawn again while the user pans and zooms.
func TestTimeline(t *testing.T) {
	b := openLargeTimeline(t)
	b.shot("timeline")
	if got := pan(b); got.Frames == 0 || got.First == 0 {
		t.Errorf("nothing was drawn: %+v", got)
	}
	b.shot("timeline-zoomed")

	// keys select a reconcile; its chain is highlighted, and the address can be shared
	eval[any](b, `document.querySelector('canvas').focus()`)
	b.press("n")
	b.until(`new URLSearchParams(location.search).get('select') !== null`)
	b.shows("because")
	b.shot("timeline-selected")
	b.goTo("/timeline?q=shop-07&fold=false")
	b.shows("in 2 lanes")
}

// BenchmarkTimeline measures the timeline of 50,000 marks while the user pans and zooms. The target
// is 60 frames a second, and a first frame within 300 ms.
func BenchmarkTimeline(b *testing.B) {
	for b.Loop() {
		got := pan(openLargeTimeline(b))
		b.ReportMetric(got.PerSecond, "frames/s")
		b.ReportMetric(got.Median, "ms/frame")
		b.ReportMetric(got.Slowest, "ms/slowest-frame")
		b.ReportMetric(got.First, "ms/first-frame")
		b.ReportMetric(got.Opened, "ms/navigation")
	}
}

// openLargeTimeline opens a timeline of 50,000 marks, and waits until it is drawn.
func openLargeTimeline(t testing.TB) *tab {
	chromium(t)
	changes := 0
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test",
		Traces: []console.TraceSource{{Place: largeTrace(t, 25_000)}}}))
	b.goTo("/timeline")
	b.shows("50,000 marks in 80 lanes")
	b.until(`performance.getEntriesByName('timeline').length > 0`)
	return b
}

// drawing has the times in which the timeline was drawn, in milliseconds.
type drawing struct {
	First           float64 // the first frame
	Opened          float64 // from the beginning of the navigation to the end of the first frame
	Median, Slowest float64 // a frame while the user pans and zooms
	Frames          int     // how often the timeline was drawn
	PerSecond       float64 // frames that the browser showed in a second
}

// pan zooms and pans the timeline as a user does, with an event for each frame.
func pan(b *tab) drawing {
	b.t.Helper()
	return eval[drawing](b, `(async () => {
		const canvas = document.querySelector('canvas');
		const first = performance.getEntriesByName('timeline')[0];
		performance.clearMeasures();
		const frame = () => new Promise(requestAnimationFrame);
		const at = {clientX: 800, clientY: 400, bubbles: true, cancelable: true};
		const began = performance.now();
		for (let i = 0; i < 150; i++) {
			canvas.dispatchEvent(new WheelEvent('wheel', i < 40 ? {...at, ctrlKey: true, deltaY: -20} : {...at, deltaX: i < 95 ? 25 : -25}));
			await frame();
		}
		const took = performance.now() - began;
		await frame(); // the last drawing
		const all = performance.getEntriesByName('timeline').map((e) => e.duration).sort((a, b) => a - b);
		return {median: all[all.length >> 1], slowest: all[all.length - 1], first: first.duration, opened: first.startTime + first.duration, frames: all.length, perSecond: 150e3 / took};
	})()`)
}

// Events of the cluster and restarts of operators are marks of the timeline, also as text.
func TestTimelineEvents(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	now := metav1.Now()
	for i, text := range []string{"the first", "the second"} {
		env.Create(t, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("e", i)},
			InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Namespace: "default", Name: "web"},
			Type:           []string{"Normal", "Warning"}[i], Reason: "Tried", Message: text, FirstTimestamp: now,
			LastTimestamp: now,
		})
	}
	file := testTrace(t, time.Now())
	again := strings.NewReplacer(`"run":"aaaa"`, `"run":"cccc"`).Replace(firstLine(t, file))
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(again)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test",
		Traces: []console.TraceSource{{Place: file}}}))
	b.goTo("/timeline")
	b.shows("marks as text")
	eval[any](b, `document.querySelector('.notelist summary').click()`)
	b.until(`document.querySelector('.notelist').innerText.includes('a new run of the operator: controller deploy, run cccc')`)
	b.until(`document.querySelector('.notelist').innerText.includes('Tried: the second')`)
	eval[any](b, `[...document.querySelectorAll('.notelist button')].find((k) => k.textContent.includes('the second')).click()`)
	b.until(`document.querySelector('.selected')?.innerText.includes('Tried: the second')`)
	b.shot("timeline-events")
	env.Create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "late"},
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "default", Name: "other"},
		Type:           "Normal", Reason: "Late", FirstTimestamp: now, LastTimestamp: now,
	})
	b.until(`document.querySelector('.notelist').innerText.includes('Late')`)
}

func firstLine(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(data), "\n")
	return line + "\n"
}

// The timeline shows the steps of a failure, with its faults and restarts.
func TestTimelineOfAFailure(t *testing.T) {
	chromium(t)
	changes := 0
	failure := writeFailure(t, `{"what":"the end differs","plan":"kill","passing":{"steps":["input: create web","request: create pods default/p1"]},"failing":{"steps":["input: create web","event: added webs default/shop",
		"request: create pods default/p1","FAULT kill-after create pods default/p1 #1","the operator restarts","request: list pods","response: create pods default/p2 (409)","ALARM the end differs: pods"],"times":[0,0.5,0.5,0.5,62,62,62,90]}}`)
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", Failure: failure}))
	b.goTo("/timeline?run=failing")
	b.shows("8 marks in 4 lanes")
	b.shows("8 steps as text")
	eval[any](b, `document.querySelector('canvas').focus()`)
	b.press("n")
	b.until(`document.querySelector('.selected')?.innerText.includes('step 2, after 0.50 s')`)
	b.shows("event: added webs default/shop")
	b.shot("timeline-failure")
	b.goTo("/timeline?run=passing")
	b.shows("2 marks in 1 lanes")
	b.goTo("/timeline?run=other")
	b.shows("the failure has no run")
}
