package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"kelson.dev/console"
)

// twoRuns writes the traces of two runs: the second one fails at its third reconcile.
func twoRuns(t *testing.T) []console.TraceSource {
	t.Helper()
	var sources []console.TraceSource
	began := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	for i, run := range []string{"good", "bad"} {
		text := ""
		for n := 1; n <= 5; n++ {
			at := began.Add(time.Duration(i)*time.Hour + time.Duration(n)*10*time.Millisecond)
			did := fmt.Sprintf(`"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"p%d","resourceVersion":"%d","changed":true}]`, n, 100*i+n)
			if run == "bad" && n == 3 {
				did = `"error":"create Pod p3: quota exceeded"`
			}
			text += fmt.Sprintf(`{"id":%d,"run":%q,"time":%q,"controller":"web","kind":"Web","namespace":"default","name":"shop",%s,"duration":"1ms"}`+"\n", n, run, at.Format(time.RFC3339Nano), did)
		}
		name := filepath.Join(t.TempDir(), run)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, console.TraceSource{Place: name})
	}
	return sources
}

func writeFailure(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "failure.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// LAB-07: two runs side by side, with the first difference; when a failure became inevitable.
func TestCompareRuns(t *testing.T) {
	chromium(t)
	changes := 0
	failure := writeFailure(t, `{"finding":"stuck","text":"Web default/shop is never ready","plan":"kill-after create pods default/p3 #1",
		"curve":[{"step":1,"failures":0,"runs":8},{"step":2,"failures":3,"runs":8},{"step":3,"failures":8,"runs":8},{"step":4,"failures":8,"runs":8}]}`)
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", Traces: twoRuns(t), Failure: failure}))
	b.goTo("/compare")
	b.until(`document.querySelector('.problem.warn')?.innerText.includes('after 20 ms, controller web of Web default/shop: the results differ')`)
	b.shows("4 reconciles are equal, 1 differ")
	b.until(`[...document.querySelectorAll('.compare tbody tr')].map((r) => r.innerText.replace(/\s+/g, ' ')).join('|').match(/^2 equal reconciles\|.*created Pod default\/p3.*quota exceeded.*\|2 equal reconciles$/)`)
	b.shows("From step 3 on, every run that continues from there fails.")
	b.shot("compare")
	eval[chromedp.Void](b, `[...document.querySelectorAll('button')].find((k) => k.textContent === 'Show equal ones').click()`)
	b.until(`document.querySelectorAll('.compare tbody tr').length === 5`)
	b.goTo("/compare?a=good&b=good")
	b.shows("have the same results in both runs")
	b.goTo("/compare?a=good&b=absent")
	b.shows("no trace has a run")
}
