package apitest_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"kelson.dev/internal/randomtest"
	"kelson.dev/kubernetes/apitest"
)

// With concurrent writers, every watch, from any start and with any selector, receives each change
// once and in order, and ends with exactly the objects that a list shows.
func TestWatchModel(t *testing.T) {
	seed := randomtest.Seed(t)
	p := apitest.New(t)
	const writers, steps = 4, 20

	var watchers sync.WaitGroup
	follow := func(query string, after string) {
		s := p.Watch(t, maps+"?watch=1&resourceVersion="+after+"&"+query)
		watchers.Go(func() {
			state, last := map[string]string{}, uint64(0)
			for {
				typ, obj, ok := s.Next(t)
				if !ok {
					t.Errorf("%s: the watch ended", query)
					return
				}
				name := apitest.At(obj, "metadata", "name").(string)
				rv := apitest.At(obj, "metadata", "resourceVersion").(string)
				revision, _ := strconv.ParseUint(rv, 10, 64)
				if name == "end" {
					break
				}
				_, known := state[name]
				if (typ == "ADDED") == known {
					t.Errorf("%s: %s %s, which is known: %v", query, typ, name, known)
				}
				if revision <= last && (after != "0" || typ != "ADDED") {
					t.Errorf("%s: revision %d after %d", query, revision, last)
				}
				last = max(last, revision)
				if state[name] = rv; typ == "DELETED" {
					delete(state, name)
				}
			}
			list := p.Want(t, 200, "GET", maps+"?"+query, "")
			want := map[string]string{}
			for _, item := range list["items"].([]any) {
				if name := apitest.At(item, "metadata", "name").(string); name != "end" {
					want[name] = apitest.At(item, "metadata", "resourceVersion").(string)
				}
			}
			if fmt.Sprint(state) != fmt.Sprint(want) {
				t.Errorf("%s from %s:\nwatched %v\n listed %v", query, after, state, want)
			}
		})
	}
	queries := []string{"", "labelSelector=on=true", "labelSelector=!on", "fieldSelector=metadata.name!%3Dw1-2"}
	for _, q := range queries {
		follow(q, "1")
	}
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for range steps {
				name := fmt.Sprintf("w%d-%d", w, random.IntN(4))
				label := `null`
				if random.IntN(2) == 0 {
					label = `"true"`
				}
				switch random.IntN(4) {
				case 0:
					p.Do(t, "DELETE", maps+"/"+name, "").Body.Close()
				case 1:
					follow(queries[random.IntN(len(queries))], "0")
				default:
					resp := p.Do(t, "PATCH", maps+"/"+name,
						fmt.Sprintf(`{"metadata":{"labels":{"on":%s}},"data":{"n":"%d"}}`, label, random.IntN(9)),
						mergePatch)
					if resp.Body.Close(); resp.StatusCode == 404 {
						p.Want(t, 201, "POST", maps, configMap(name, ""))
					}
				}
			}
		})
	}
	done.Wait()
	// The last object matches every selector at some time.
	p.Want(t, 201, "POST", maps, configMap("end", ""))
	p.Want(t, 200, "PATCH", maps+"/end", `{"metadata":{"labels":{"on":"true"}}}`, mergePatch)
	watchers.Wait()
}
