package apiserver_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/apiserver"
	"kelson.dev/internal/require"
)

// Field ownership does not depend on the fast paths: two servers, one of them without fast paths,
// send equal responses to the same random writes.
func TestFieldManagerMatchesLibrary(t *testing.T) {
	rounds := uint64(60)
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) {
			fast, library := newPizzaServer(t), newPizzaServer(t, apiserver.NoFastPaths())
			random := rand.New(rand.NewPCG(seed, 0))
			for n := range 60 {
				time.Sleep(time.Duration(random.IntN(3)) * time.Second)
				w := randomWrite(random)
				got, want := fast.send(w), library.send(w)
				if got != want {
					t.Fatalf("seed %d, write %d: %s %s %s\n%s\nfast:    %s\nlibrary: %s", seed, n, w.method, w.path,
						w.media, w.body, got, want)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// pizzaServer is one of the two servers that are compared.
type pizzaServer struct {
	t      *testing.T
	client *http.Client
	host   string
}

func newPizzaServer(t *testing.T, parts ...apiserver.Part) pizzaServer {
	s, _ := newServer(t, append(parts, kinds())...)
	client, err := rest.HTTPClientFor(quiet(s.RESTConfig()))
	require.NoError(t, err)
	return pizzaServer{t, client, s.RESTConfig().Host}
}

// send sends a write and returns the status and the response, without the fields that differ
// between servers.
func (p pizzaServer) send(w request) string {
	req, err := http.NewRequestWithContext(p.t.Context(), w.method, p.host+w.path, strings.NewReader(w.body))
	require.NoError(p.t, err)
	req.Header.Set("Content-Type", w.media)
	req.Header.Set("User-Agent", w.agent)
	resp, err := p.client.Do(req)
	require.NoError(p.t, err)
	data := require.Body(p.t, resp)
	var object map[string]any
	require.NoErrorf(p.t, json.Unmarshal(data, &object), "%s", data)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "uid")
	}
	if object["kind"] == "Status" {
		delete(object, "details") // has the uid
	}
	text, err := json.Marshal(object)
	require.NoError(p.t, err)
	return fmt.Sprint(resp.StatusCode, " ", string(text))
}

// request is one request.
type request struct{ method, path, media, body, agent string }

// randomWrite returns a write of one of two pizzas, in one of their versions.
func randomWrite(random *rand.Rand) request {
	one := func(all ...string) string { return all[random.IntN(len(all))] }
	name, version, manager := one("a", "b"), one("v1beta1", "v1beta1", "v1alpha1"), one("x", "y", "z")
	base := "/apis/" + group + "/" + version + "/namespaces/default/pizzas"
	w := request{agent: manager}
	switch random.IntN(9) {
	case 0, 1:
		w.method, w.path, w.media, w.body = "POST", base, "application/json", randomPizza(random, version, name)
	case 2, 3, 4:
		w.method, w.media, w.body = "PATCH", "application/apply-patch+yaml", randomPizza(random, version, name)
		w.path = base + "/" + name + "?fieldManager=" + manager + one("", "&force=true", "&force=true")
	case 5, 6:
		w.method, w.path, w.media = "PATCH", base+"/"+name, "application/merge-patch+json"
		w.body = one(`{"metadata":{"labels":{"a":"1"}}}`, `{"metadata":{"labels":{"a":"2","b":null}}}`,
			`{"metadata":{"labels":null}}`, `{"spec":{"toppings":null}}`,
			`{"spec":{"toppings":[]}}`, `{"metadata":{"annotations":{"n":"`+one("1", "2")+`"}}}`,
			`{"metadata":{"finalizers":["example.com/f"]}}`, `{"metadata":{"finalizers":null}}`,
			`{"metadata":{"managedFields":[{}]}}`, `{}`,
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"`+one("1", "2")+`"}]}}`)
	case 7:
		w.method, w.path, w.media = "PATCH", base+"/"+name+"/status", "application/merge-patch+json"
		w.body = one(`{"status":{"cost":1}}`, `{"status":{"cost":2}}`, `{"status":{"cost":0}}`, `{"status":null}`,
			`{"metadata":{"labels":{"a":"3"}}}`)
	default:
		w.method, w.path = "DELETE", base+"/"+name
	}
	return w
}

// randomPizza returns a pizza with random labels, toppings and size.
func randomPizza(random *rand.Rand, version, name string) string {
	metadata := map[string]any{"name": name}
	if random.IntN(2) == 0 {
		labels := map[string]any{}
		for range random.IntN(3) {
			labels[string("abc"[random.IntN(3)])] = fmt.Sprint(random.IntN(3))
		}
		metadata["labels"] = labels
	}
	spec := map[string]any{}
	all := []string{"mozzarella", "salami", "olive"}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if n := random.IntN(len(all) + 1); n > 0 {
		var toppings []any
		for _, topping := range slices.Clone(all[:n]) {
			if version == "v1alpha1" {
				toppings = append(toppings, topping)
				continue
			}
			t := map[string]any{"name": topping}
			if random.IntN(2) == 0 {
				t["quantity"] = 1 + random.IntN(2)
			}
			toppings = append(toppings, t)
		}
		spec["toppings"] = toppings
	}
	if random.IntN(2) == 0 {
		spec["size"] = "medium"
	}
	object := map[string]any{"apiVersion": group + "/" + version, "kind": "Pizza", "metadata": metadata, "spec": spec}
	if random.IntN(4) == 0 {
		object["status"] = map[string]any{"cost": random.IntN(3)}
	}
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(data)
}
