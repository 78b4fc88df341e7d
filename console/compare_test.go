package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"kelson.dev/console"
	"kelson.dev/internal/require"
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
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		sources = append(sources, console.TraceSource{Place: name})
	}
	return sources
}

func writeFailure(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "failure.json")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// The view shows two runs side by side, with the first difference, and when a failure became
// inevitable.
func TestCompareRuns(t *testing.T) {
	chromium(t)
	changes := 0
	failure := writeFailure(t, `{"oracle":"O1","what":"the end differs","detail":"pods default/p3 is missing","plan":"kill-after create pods default/p3 #1","seen":3,"runs":3,
		"steps":["input: create web","request: create pods default/p1","FAULT kill-after create pods default/p3 #1","ALARM the end differs"],
		"curve":[{"step":0,"text":"input: create web","failures":0,"runs":8},{"step":1,"failures":3,"runs":8},{"step":2,"text":"FAULT kill-after","failures":8,"runs":8},{"step":3,"failures":8,"runs":8}],
		"passing":{"plan":"","steps":["input: create web","request: create pods default/p1","request: create pods default/p3"],"objects":{"pods default/p3":[{"spec":{"size":1}}]}},
		"failing":{"plan":"kill","steps":["input: create web","request: create pods default/p1","FAULT kill-after create pods default/p3 #1","ALARM the end differs"],"times":[0,0.25,3661,3662],"objects":{}}}`)
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", Traces: twoRuns(t),
		Failure: failure}))
	b.goTo("/compare")
	b.until(`[...document.querySelectorAll('.problem.warn')].pop()?.innerText.includes('after 20 ms, controller web of Web default/shop: the results differ')`)
	b.shows("4 reconciles are equal, 1 differ")
	b.until(`[...document.querySelectorAll('.compare tbody tr')].map((r) => r.innerText.replace(/\s+/g, ' ')).join('|').match(/^2 equal reconciles\|.*created Pod default\/p3.*quota exceeded.*\|2 equal reconciles$/)`)
	b.shows("From step 3 on, every run that continues from there fails: FAULT kill-after")
	b.shows("step 3 of the failing run: FAULT kill-after create pods default/p3 #1")
	b.shows("failed in 3 of 3 runs")
	b.until(`document.querySelector('.ends tbody')?.innerText.replace(/\s+/g, ' ').includes('pods default/p3 exists absent')`)
	b.until(`[...document.querySelectorAll('.steps2 tbody tr')].some((r) => r.innerText.replace(/\s+/g, ' ').includes('3 61m FAULT kill-after'))`)
	b.shot("compare")
	b.goTo("/compare?all=true")
	b.until(`document.querySelectorAll('.steps2 tbody tr').length === 4`)
	b.goTo("/compare")
	b.until(`[...document.querySelectorAll('button')].some((k) => k.textContent === 'Show equal rows')`)
	eval[chromedp.Void](b, `[...document.querySelectorAll('button')].find((k) => k.textContent === 'Show equal rows').click()`)
	b.until(`document.querySelectorAll('.compare tbody tr').length === 5`)
	b.goTo("/compare?a=good&b=good")
	b.shows("have the same results in both runs")
	b.goTo("/compare?a=good&b=absent")
	b.shows("no trace has a run")
}
