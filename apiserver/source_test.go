package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// shelf is an external system with toppings.
type shelf struct {
	mu    sync.Mutex
	costs map[string]int64
	reads int
	fail  error
}

func (s *shelf) List(context.Context) ([]*topping, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	var all []*topping
	for name, cost := range s.costs {
		all = append(all, &topping{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"dear": fmt.Sprint(cost > 5)}}, Spec: toppingSpec{Cost: cost}})
	}
	return all, s.fail
}

func (s *shelf) set(name string, cost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.costs[name] = cost
}

func (s *shelf) cost(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.costs[name]
}

func shelfKind(source apiserver.Source[*topping], age time.Duration) apiserver.Part {
	return apiserver.Group(group, apiserver.Kind(&topping{TypeMeta: typeMeta("v1alpha1", "Topping")},
		apiserver.ClusterScoped(), apiserver.From(source, apiserver.MaxAge(age))))
}

// A kind over another system has get, list, watch and selectors, in virtual time.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shelf{costs: map[string]int64{"ham": 3, "truffle": 90}}
		_, client := newServer(t, shelfKind(source, 15*time.Second))
		in := client.Resource(toppings)
		ctx := t.Context()
		dear, err := in.List(ctx, metav1.ListOptions{LabelSelector: "dear=true"})
		if err != nil || len(dear.Items) != 1 || dear.Items[0].GetName() != "truffle" {
			t.Fatalf("list: %v, %v", dear, err)
		}
		w, err := in.Watch(ctx, metav1.ListOptions{ResourceVersion: dear.GetResourceVersion()})
		require.NoError(t, err)
		defer w.Stop()
		source.set("ham", 4)
		source.set("olive", 1)
		first, second := <-w.ResultChan(), <-w.ResultChan()
		if types := []watch.EventType{first.Type, second.Type}; !slices.Contains(types, watch.Modified) ||
			!slices.Contains(types, watch.Added) {
			t.Errorf("events %v", types)
		}
		source.mu.Lock()
		delete(source.costs, "olive")
		before := source.reads
		source.mu.Unlock()
		e := <-w.ResultChan()
		assert.Equalf(t, e.Type, watch.Deleted, "event %v", e)
		source.mu.Lock()
		if source.reads != before+1 {
			t.Errorf("%d reads for one interval", source.reads-before)
		}
		source.mu.Unlock()
		one, err := in.Get(ctx, "ham", metav1.GetOptions{})
		if err != nil || one.GetUID() == "" {
			t.Errorf("get: %v, %v", one, err)
		}
		if _, err := in.Create(ctx, newTopping(t, "x"), metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("create: %v", err)
		}
		source.mu.Lock()
		source.fail = errors.New("the shelf is unavailable")
		source.mu.Unlock()
		time.Sleep(time.Minute)
		if _, err := in.List(ctx, metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) ||
			!strings.Contains(err.Error(), "the shelf is unavailable") {
			t.Errorf("broken source: %v", err)
		}
	})
}

// hangingShelf never responds.
type hangingShelf struct{}

func (hangingShelf) List(ctx context.Context) ([]*topping, error) {
	select {} // ignores its context
}

// Clients of a source that hangs get a response by the deadline of their request.
func TestHangingSource(t *testing.T) {
	s, client := newServer(t, shelfKind(hangingShelf{}, 0),
		apiserver.Group("other.example.com", apiserver.Kind(
			&pizza{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pizza"}})))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := client.Resource(toppings).List(ctx, metav1.ListOptions{}); err == nil {
				t.Error("list of a source that hangs succeeded")
			}
		})
	}
	all.Wait()
	got := body(t, s, "/apis/other.example.com/v1/pizzas", "application/json")
	assert.Containsf(t, got, "PizzaList", "another kind")
}

// notifyingShelf can be written and reports changes.
type notifyingShelf struct {
	shelf
	changes chan struct{}
}

func (s *notifyingShelf) Notify(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changes:
			changed()
		}
	}
}

func (s *notifyingShelf) Create(_ context.Context, t *topping) error {
	if t.Spec.Cost > 100 {
		return apierrors.NewBadRequest("too dear")
	}
	s.set(t.Name, t.Spec.Cost)
	return nil
}

func (s *notifyingShelf) Delete(_ context.Context, t *topping) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.costs, t.Name)
	return nil
}

// Writes go to the source; notifications reach watches without polling.
func TestSourceWrites(t *testing.T) {
	source := &notifyingShelf{shelf: shelf{costs: map[string]int64{}}, changes: make(chan struct{})}
	none := func(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*topping]) error {
		if _, err := apiserver.Get[*topping](tx, "", w.Name); err == nil {
			return errors.New("there is one")
		}
		_, err := apiserver.List[*oven](tx, "", nil)
		return err
	}
	ovens := apiserver.Group("ovens.example.com",
		apiserver.Kind(&oven{TypeMeta: metav1.TypeMeta{APIVersion: "ovens.example.com/v1", Kind: "Oven"}}))
	_, client := newServer(t, shelfKind(source, 0), ovens, apiserver.Admission(none, admission.Create))
	in := client.Resource(toppings)
	ctx := t.Context()
	w, err := in.Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()
	_, err = in.Create(ctx, newTopping(t, "ham"), metav1.CreateOptions{})
	require.NoError(t, err)
	if e := <-w.ResultChan(); e.Type != watch.Added || source.cost("ham") != 1 {
		t.Errorf("event %v, cost %d", e, source.cost("ham"))
	}
	dear := newTopping(t, "truffle")
	dear.Object["spec"] = map[string]any{"cost": int64(1000)}
	if _, err := in.Create(ctx, dear, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("refused by the source: %v", err)
	}
	if _, err := in.Create(ctx, newTopping(t, "dry"), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil ||
		source.cost("dry") != 0 {
		t.Errorf("dry run: %v, cost %d", err, source.cost("dry"))
	}
	source.set("olive", 2)
	source.changes <- struct{}{}
	for e := range w.ResultChan() {
		object := e.Object.(metav1.Object)
		if object.GetName() == "olive" && e.Type == watch.Added {
			break
		}
	}
	require.NoError(t, in.Delete(ctx, "olive", metav1.DeleteOptions{}))
	if list, err := in.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 ||
		list.Items[0].GetName() != "ham" {
		t.Errorf("list: %v, %v", list, err)
	}
}

// updatedShelf can be updated, too.
type updatedShelf struct{ notifyingShelf }

func (s *updatedShelf) Update(_ context.Context, t, _ *topping) error {
	s.set(t.Name, t.Spec.Cost)
	return nil
}

// Clients cannot add finalizers to the objects of a source, and propagation policies have no
// effect.
func TestSourceFinalizers(t *testing.T) {
	source := &updatedShelf{notifyingShelf{shelf: shelf{costs: map[string]int64{}}, changes: make(chan struct{})}}
	_, client := newServer(t, shelfKind(source, 0))
	in, ctx := client.Resource(toppings), t.Context()
	held := newTopping(t, "held")
	held.SetFinalizers([]string{"example.com/x"})
	if _, err := in.Create(ctx, held, metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "metadata.finalizers[0]: Forbidden: objects of this kind are in another system") {
		t.Errorf("create: %v", err)
	}
	assert.Equalf(t, source.cost("held"), 0, "the source has the object")
	_, err := in.Create(ctx, newTopping(t, "ham"), metav1.CreateOptions{})
	require.NoError(t, err)
	if _, err := in.Patch(ctx, "ham", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/x"]},"spec":{"cost":2}}`),
		metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("patch: %v", err)
	}
	if _, err := in.Patch(ctx, "ham", types.MergePatchType, []byte(`{"spec":{"cost":2}}`),
		metav1.PatchOptions{}); err != nil || source.cost("ham") != 2 {
		t.Errorf("patch: %v, cost %d", err, source.cost("ham"))
	}
	foreground := metav1.DeletePropagationForeground
	require.NoError(t, in.Delete(ctx, "ham", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	assert.Equalf(t, source.cost("ham"), 0, "the source has the deleted object")
}

// panickingShelf panics in its methods until it is repaired.
type panickingShelf struct {
	shelf
	repaired, notified atomic.Bool
}

func (s *panickingShelf) List(ctx context.Context) ([]*topping, error) {
	if !s.repaired.Load() {
		panic("List")
	}
	return s.shelf.List(ctx)
}

func (s *panickingShelf) Notify(ctx context.Context, changed func()) error {
	if !s.repaired.Load() {
		s.notified.Store(true)
		panic("Notify")
	}
	changed()
	<-ctx.Done()
	return nil
}

// A panic of a source fails the requests that read it, and does not end the server.
func TestPanickingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &panickingShelf{shelf: shelf{costs: map[string]int64{"ham": 3}}}
		_, client := newServer(t, shelfKind(source, 0))
		in, ctx := client.Resource(toppings), t.Context()
		for range 2 {
			if _, err := in.List(ctx, metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) ||
				!strings.Contains(err.Error(), "panic in the method List of the source") {
				t.Errorf("list: %v", err)
			}
		}
		time.Sleep(2 * time.Second)
		if !source.notified.Load() {
			t.Error("Notify was not called")
		}
		source.repaired.Store(true)
		time.Sleep(2 * time.Second)
		if list, err := in.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
			t.Errorf("list: %v, %v", list, err)
		}
	})
}

// bake is the body of an action.
type bake struct {
	metav1.TypeMeta `json:",inline"`
	Minutes         int64 `json:"minutes"`
}

func (b *bake) DeepCopyObject() runtime.Object {
	out := *b
	return &out
}

// pieces is the response of an action.
type pieces struct {
	metav1.TypeMeta `json:",inline"`
	Count           int64 `json:"count"`
}

func (p *pieces) DeepCopyObject() runtime.Object {
	out := *p
	return &out
}

// checkSubresourceDocs checks the paths of bake and steam in both OpenAPI documents.
func checkSubresourceDocs(t *testing.T, s *apiserver.Server) {
	t.Helper()
	type operation struct {
		OperationID string         `json:"operationId"`
		Action      string         `json:"x-kubernetes-action"`
		Kind        map[string]any `json:"x-kubernetes-group-version-kind"`
		Parameters  []map[string]any
		RequestBody map[string]any
		Responses   map[string]any
	}
	type path struct {
		Get, Post  *operation
		Parameters []any
	}
	const bakeName = "com.example.restaurant.v1beta1.bake"
	var v3 struct {
		Paths      map[string]path
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	var v2 struct {
		Paths       map[string]path
		Definitions map[string]struct{ Properties map[string]any }
	}
	for url, doc := range map[string]any{"/openapi/v3/apis/" + group + "/v1beta1": &v3, "/openapi/v2": &v2} {
		require.NoError(t, json.Unmarshal([]byte(body(t, s, url, "application/json")), doc))
	}
	in := "/apis/" + group + "/v1beta1/namespaces/{namespace}/pizzas/{name}/"
	for version, paths := range map[string]map[string]path{"v2": v2.Paths, "v3": v3.Paths} {
		bake, steam := paths[in+"bake"], paths[in+"steam"]
		if bake.Post == nil || steam.Get == nil {
			t.Errorf("%s lacks paths: %+v %+v", version, bake, steam)
			continue
		}
		check(t, version+" action", bake.Post.Action+" "+steam.Get.Action, "post connect")
		check(t, version+" kinds", fmt.Sprint(bake.Post.Kind["kind"], " ", steam.Get.Kind["kind"]), "bake Pizza")
		if !strings.HasPrefix(bake.Post.OperationID, "create") ||
			!strings.HasSuffix(bake.Post.OperationID, "NamespacedPizzaBake") ||
			!strings.HasPrefix(steam.Get.OperationID, "connectGet") || len(bake.Parameters) == 0 ||
			len(steam.Get.Responses) == 0 {
			t.Errorf("%s: %+v %+v", version, bake.Post, steam.Get)
		}
	}
	for version, properties := range map[string]map[string]any{"v2": v2.Definitions[bakeName].Properties,
		"v3": v3.Components.Schemas[bakeName].Properties} {
		if properties["minutes"] == nil || properties["metadata"] != nil {
			t.Errorf("%s: the body has %v", version, properties)
		}
	}
	const piecesName = "com.example.restaurant.v1beta1.pieces"
	for version, properties := range map[string]map[string]any{"v2": v2.Definitions[piecesName].Properties,
		"v3": v3.Components.Schemas[piecesName].Properties} {
		if properties["count"] == nil || properties["metadata"] != nil {
			t.Errorf("%s: the response has %v", version, properties)
		}
	}
	for _, code := range []string{"200", "201"} {
		for version, test := range map[string]struct {
			paths map[string]path
			ref   string
		}{"v2": {v2.Paths, "$ref:#/definitions/" + piecesName},
			"v3": {v3.Paths, "$ref:#/components/schemas/" + piecesName}} {
			got := fmt.Sprint(test.paths[in+"cut"].Post.Responses[code])
			assert.Containsf(t, got, test.ref, "%s: response %s of cut", version, code)
			if got := fmt.Sprint(test.paths[in+"bake"].Post.Responses[code]); !strings.Contains(got, "type:object") {
				t.Errorf("%s: response %s of bake, which can be any object: %s", version, code, got)
			}
		}
	}
	ref := fmt.Sprint(v3.Paths[in+"bake"].Post.RequestBody)
	assert.Containsf(t, ref, "#/components/schemas/"+bakeName, "v3: the body of bake")
	if len(v2.Paths[in+"bake"].Post.Parameters) == 0 ||
		!strings.Contains(fmt.Sprint(v2.Paths[in+"bake"].Post.Parameters[0]), "#/definitions/"+bakeName) {
		t.Errorf("v2: the body of bake: %v", v2.Paths[in+"bake"].Post.Parameters)
	}
}

// An action and a stream.
func TestSubresources(t *testing.T) {
	action := apiserver.Action("bake", func(ctx context.Context, call *apiserver.Call[*pizza],
		body *bake) (runtime.Object, error) {
		err := call.Server.Transact(ctx, func(tx *apiserver.Tx) error {
			p, err := call.Get(tx)
			if err != nil {
				return err
			}
			p.Status.Cost = body.Minutes
			return tx.UpdateStatus(p)
		})
		return body, err
	})
	cut := apiserver.Action("cut", func(_ context.Context, _ *apiserver.Call[*pizza], body *bake) (*pieces, error) {
		if body.Minutes < 0 {
			return nil, apierrors.NewBadRequest("not baked")
		}
		return &pieces{Count: body.Minutes}, nil
	})
	steam := apiserver.Connect("steam", func(_ context.Context, _ *apiserver.Call[*pizza], p *pizza) (http.Handler,
		error) {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprintln(w, p.Name)
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}), nil
	})
	synctest.Test(t, func(t *testing.T) {
		s, client := newServer(t, kinds(action, cut, steam))
		ctx := t.Context()
		in := client.Resource(pizzas).Namespace("default")
		_, err := in.Create(ctx, newPizza(t, "a", `{}`), metav1.CreateOptions{})
		require.NoError(t, err)
		post := func(path, text string) (int, string) {
			return postTo(t, s, "/apis/"+group+"/v1beta1/namespaces/default/pizzas/"+path, text)
		}
		if code, text := post("a/bake", `{"apiVersion":"`+group+`/v1beta1","kind":"bake","minutes":7}`); code != http.StatusCreated || !strings.Contains(text, `"minutes":7`) {
			t.Errorf("bake: %d %s", code, text)
		}
		if code, text := post("missing/bake", `{"minutes":7}`); code != http.StatusNotFound {
			t.Errorf("bake a pizza that does not exist: %d %s", code, text)
		}
		if code, text := post("a/cut", `{"minutes":8}`); code != http.StatusCreated ||
			strings.TrimSpace(text) != `{"kind":"pieces","apiVersion":"`+group+`/v1beta1","count":8}` {
			t.Errorf("cut: %d %s", code, text)
		}
		if code, text := post("a/cut", `{"minutes":-1}`); code != http.StatusBadRequest ||
			!strings.Contains(text, "not baked") {
			t.Errorf("cut a pizza that is not baked: %d %s", code, text)
		}
		baked, err := in.Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		check(t, "cost", text(t, baked, "status", "cost"), "7")

		checkSubresourceDocs(t, s)

		// A stream outlives the deadline of short requests.
		streaming, cancel := context.WithCancel(ctx)
		defer cancel()
		req, err := http.NewRequestWithContext(streaming, http.MethodGet,
			"http://server/apis/"+group+"/v1beta1/namespaces/default/pizzas/a/steam", nil)
		require.NoError(t, err)
		resp, err := s.RESTConfig().Transport.RoundTrip(req)
		require.NoError(t, err)
		line := make([]byte, 2)
		if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != "a\n" {
			t.Errorf("stream: %q, %v", line, err)
		}
		ended := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("the stream ended: %v", err)
		case <-time.After(10 * time.Minute):
			cancel()
			<-ended
		}
		resp.Body.Close()
	})
}
