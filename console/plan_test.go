package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
	"kelson.dev/lab/planned"
)

// samplePlan is the plan of an operator that creates, changes and deletes objects, and fails.
func samplePlan() *planned.Plan {
	web := planned.Ref{Group: "example.com", Kind: "Web", Resource: "webs", Namespace: "default", Name: "shop"}
	secret := planned.Ref{Kind: "Secret", Resource: "secrets", Namespace: "default", Name: "shop-key"}
	return &planned.Plan{
		Cluster: "cluster prod (https://10.0.0.1)", Objects: 120,
		Installed: []planned.Installed{{Verb: planned.Create,
			Object: planned.Ref{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition",
				Resource: "customresourcedefinitions", Name: "webs.example.com"}}},
		Steps: []planned.Step{
			{Number: 1, Controller: "web", Object: &web,
				Because: []planned.Cause{{Text: "webs.example.com/default/shop exists"}}, Writes: []planned.Write{
					{Verb: planned.Create, Object: secret,
						Changes: []history.Change{{Path: ".data.password", To: `"aHVudGVyMg=="`},
							{Path: ".metadata.labels.app", To: `"shop"`}}, Webhooks: []string{"check.example.com"}},
					{Verb: planned.Update, Object: planned.Ref{Group: "apps", Kind: "Deployment",
						Resource:  "deployments",
						Namespace: "default", Name: "shop"},
						Changes: []history.Change{{Path: ".spec.replicas", From: "2", To: "3"}},
						Effects: []planned.Effect{{Verb: planned.Create,
							Object: planned.Ref{Kind: "Pod", Resource: "pods", Namespace: "default", Name: "shop-1"}}}},
				}},
			{Number: 2, Controller: "web", Object: &web,
				Because: []planned.Cause{{Text: "the write of deployments.apps/default/shop", Step: 1,
					Probably: true}},
				Simulated: "the pods of the Deployment did not run",
				Writes: []planned.Write{{Verb: planned.Delete,
					Object:  planned.Ref{Kind: "ConfigMap", Resource: "configmaps", Namespace: "other", Name: "old"},
					Changes: []history.Change{{Path: "", From: `{"a":"b"}`}}}}},
			{Number: 3, Controller: "web", Object: &web, Error: "update Web status: forbidden", Times: 4},
		},
		Refused: []planned.Refusal{{Verb: "update", Subresource: "status", Object: web, Message: "forbidden",
			Times: 4}},
		Notes: []string{"Events and Leases are omitted"},
	}
}

func writePlan(t *testing.T, p *planned.Plan) string {
	t.Helper()
	data, err := json.Marshal(p)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "plan.json")
	require.NoError(t, os.WriteFile(name, data, 0o600))
	return name
}

// The view Plan shows what an operator would do, with causes and fields and without the values of
// Secrets. It follows changes of the file. The exported plan is complete.
func TestPlan(t *testing.T) {
	chromium(t)
	changes := 0
	p := samplePlan()
	file := writePlan(t, p)
	c := start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", Plan: file})
	b := open(t, c)
	b.goTo("/plan")
	b.shows("on a copy of cluster prod (https://10.0.0.1), 120 objects")
	b.until(`document.querySelectorAll('.step').length === 3`)
	step := func(n int, want string) {
		t.Helper()
		b.until(`document.querySelector('[aria-label="Step ` + string(rune('0'+n)) +
			`"]')?.innerText.replace(/\s+/g, ' ').includes(` + quoted(want) + `)`)
	}
	step(1, "because webs.example.com/default/shop exists")
	step(1, ".data.password (hidden) .metadata.labels.app \"shop\"")
	step(1, "webhook check.example.com was not called")
	step(1, ".spec.replicas 2 → 3")
	step(1, "Kubernetes then: create Pod default/shop-1")
	step(2, "probably because the write of deployments.apps/default/shop (step 1)")
	step(2, "the pods of the Deployment did not run")
	step(3, "fails update Web status: forbidden (4 times)")
	b.shows("Events and Leases are omitted")
	b.until(`document.querySelector('.problem')?.innerText.includes('update Web default/shop (status): forbidden (4 times)')`)
	if text := eval[string](b, `document.documentElement.innerHTML`); strings.Contains(text, "aHVudGVyMg") {
		t.Error("the page has the value of a Secret")
	}
	b.shot("plan")
	b.goTo("/plan?q=configmap")
	b.until(`document.querySelectorAll('.step').length === 1`)
	b.goTo("/plan?namespace=other")
	b.until(`document.querySelectorAll('.step').length === 1`)
	b.goTo("/plan?step=2")
	b.until(`document.querySelector('.step.target')?.ariaLabel === 'Step 2'`)

	base, client := signedIn(t, c)
	for format, want := range map[string]string{"markdown": "### Plan: ", "json": `"Cluster": "`} {
		resp, err := client.Get(base + "/api/plan/export?format=" + format)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(strings.ToLower(string(text)), strings.ToLower(want)) ||
			strings.Contains(string(text), "aHVudGVyMg") {
			t.Errorf("%s: %v\n%s", format, err, text)
		}
		if got := resp.Header.Get("Content-Disposition"); !strings.HasPrefix(got, "attachment;") {
			t.Errorf("%s: Content-Disposition %q", format, got)
		}
	}

	err := os.Rename(writePlan(t, &planned.Plan{Cluster: "cluster prod", Objects: 3, Steps: []planned.Step{}}),
		file)
	require.NoError(t, err)
	b.goTo("/plan")
	b.shows("The operator would do nothing.")
	require.NoError(t, os.WriteFile(file, []byte(`{"kind":"Pod"}`), 0o600))
	b.shows("it has neither steps nor a cluster")
}

// The console makes plans on request, one at a time, and shows the error if a plan could not be
// made.
func TestMakePlan(t *testing.T) {
	chromium(t)
	changes := 0
	proceed := make(chan error)
	c := start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test",
		MakePlan: func(ctx context.Context, lastCommit bool) ([]byte, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case err := <-proceed:
				if err != nil {
					return nil, err
				}
			}
			p := samplePlan()
			if lastCommit {
				p.Compared, p.Differences = "HEAD",
					[]planned.Difference{{Object: *p.Steps[0].Object,
						Changes: []history.Change{{Path: ".spec.size", From: "1", To: "2"}}, Steps: []int{1}}}
			}
			return json.Marshal(p)
		}})
	b := open(t, c)
	b.goTo("/plan")
	b.shows("Nothing reaches the cluster.")
	press := func(text string) {
		b.until(`[...document.querySelectorAll('main button')].some((k) => k.textContent === ` + quoted(text) +
			` && !k.disabled)`)
		eval[any](b, `[...document.querySelectorAll('main button')].find((k) => k.textContent === `+quoted(text)+
			`).click()`)
	}
	press("Make a plan")
	b.shows("running it on a copy of the cluster")
	base, client := signedIn(t, c)
	again, err := http.NewRequest(http.MethodPost, base+"/api/plan/run", nil)
	require.NoError(t, err)
	again.Header.Set("Origin", base)
	resp, err := client.Do(again)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equalf(t, resp.StatusCode, http.StatusConflict, "a second plan at the same time: %s", resp.Status)
	proceed <- errors.New("kelson plan: build operator: syntax error")
	b.shows("build operator: syntax error")
	press("Make a plan")
	proceed <- nil
	b.until(`document.querySelectorAll('.step').length === 3`)
	press("Compare with the last commit")
	proceed <- nil
	b.shows("1 object would end differently than with HEAD")
	b.shows("written in step 1")
	b.shot("plan-compared")
	if changes > 0 {
		t.Errorf("%d changes reached the cluster", changes)
	}
}
