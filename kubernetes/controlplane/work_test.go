package controlplane_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/apiserver/attacktest/bodies"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

var sweep = flag.Bool("attack.sweep", false, "measure every attack at growing sizes, and print what one request costs")

// attacked is a control plane with an editor and an administrator of the namespace default.
type attacked struct {
	plane      *controlplane.ControlPlane
	root, user *http.Client
}

func newAttacked(t testing.TB) *attacked {
	t.Helper()
	plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	admin := client(plane, "root", user.SystemPrivilegedGroup)
	// without controllers, roles are not aggregated
	for _, role := range []string{"view", "edit", "admin"} {
		b := binding("mallory-"+role, "ClusterRole", "system:aggregate-to-"+role, "mallory")
		_, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), b, createOpts)
		require.NoError(t, err)
	}
	_, err := admin.RbacV1().ClusterRoles().Create(t.Context(),
		clusterRole("attack", rule("*", "attack.example.com", "*"), rule("create", "authorization.k8s.io", "*")),
		createOpts)
	require.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), clusterBinding("attack", "attack", "mallory"),
		createOpts)
	require.NoError(t, err)
	return &attacked{plane: plane, root: &http.Client{Transport: plane.Transport()},
		user: &http.Client{Transport: plane.TransportAs(&user.DefaultInfo{Name: "mallory",
			Groups: []string{user.AllAuthenticated}})}}
}

// send sends a request and returns the status code and the beginning of the response.
func (a *attacked) send(t testing.TB, c *http.Client, r bodies.Request) (code int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, "http://plane"+r.Path, strings.NewReader(r.Body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", r.Media)
	resp, err := c.Do(req)
	require.NoError(t, err)
	raw := require.Body(t, resp)
	return resp.StatusCode, string(raw[:min(len(raw), 300)])
}

// run sends the requests of an attack and returns the cost of the last one.
func (a *attacked) run(t testing.TB, attack bodies.Attack) (code int, answer string, cost time.Duration) {
	t.Helper()
	for _, r := range attack.Setup {
		c := a.user
		if attack.Admin {
			c = a.root
		}
		before := cpu()
		code, answer := a.send(t, c, r)
		if code >= 300 && code != http.StatusConflict {
			t.Logf("%s: %s %s: %d %s", attack.Name, r.Method, r.Path, code, answer)
		}
		if cost := cpu() - before; cost > 2*time.Second {
			t.Logf("%s: %s %s: %v", attack.Name, r.Method, r.Path, cost)
		}
	}
	c := a.user
	if strings.HasPrefix(attack.Name, "definition") {
		c = a.root
	}
	runtime.GC()
	before := cpu()
	code, answer = a.send(t, c, attack.Request)
	return code, answer, cpu() - before
}

// Any single request costs little. Without limits, each of these took between half a minute and
// hours of CPU time.
func TestWorkOfOneRequest(t *testing.T) {
	require.Long(t, "takes 15 seconds")
	// most take less than one second on an idle machine, and none more than three
	const most = 15 * time.Second
	codes := map[string]int{
		"strategic merge of env":                    413,
		"strategic merge: deletes in env":           413,
		"strategic merge: one element many times":   413,
		"strategic merge: primitives":               413,
		"strategic merge: $deleteFromPrimitiveList": 413,
		// the store refuses the large object that these change
		"JSON patch: insertions at the front": 404,
		"JSON patch: moves in a list":         404,
		"members: PATCH":                      404,
		"members: apply":                      413,
		"members: apply over another":         413,
		"lists: addresses of a Service":       422,
		"lists: families of a Service":        422,
		"reviews: extra":                      201,
		"rbac: products of rules":             413,
	}
	// At full size, the budget for decoding refuses these first.
	quarter := map[string]int{
		"strategic merge: $setElementOrder of containers": 404, // as above
		"managedFields: appliers":                         422,
		"managedFields: updaters":                         422,
		"managedFields in a patch":                        422,
		"managedFields: wide":                             201,
		"metadata: ownerReferences":                       201,
	}
	// Requests that are refused only after validation also take the time to create their errors and
	// warnings, so these cases use a twentieth of the size.
	small := map[string]int{
		"lists: topologySpreadConstraints": 422,
		"lists: containers":                422,
		"lists: tolerations":               422,
		"lists: ports":                     201,
		"custom: wrong types":              422,
	}
	a := newAttacked(t)
	for scale, codes := range map[float64]map[string]int{1: codes, 1. / 4: quarter, 1. / 20: small} {
		found := 0
		for _, attack := range bodies.All(scale) {
			want, ok := codes[attack.Name]
			if !ok {
				continue
			}
			found++
			code, answer, cost := a.run(t, attack)
			if code != want {
				t.Errorf("%s: %d, want %d: %s", attack.Name, code, want, answer)
			}
			if cost > most {
				t.Errorf("%s: %v of processor time", attack.Name, cost)
			}
		}
		if found != len(codes) {
			t.Errorf("%d attacks, want %d", found, len(codes))
		}
	}
}

// TestSweep only measures, and never fails.
func TestSweep(t *testing.T) {
	if !*sweep {
		t.Skip("needs -attack.sweep")
	}
	for i, attack := range bodies.All(1. / 64) {
		t.Run(strings.ReplaceAll(attack.Name, " ", "_"), func(t *testing.T) {
			for _, scale := range []float64{1. / 16, 1. / 4, 1} {
				code, answer, cost := newAttacked(t).run(t, bodies.All(scale)[i])
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				fmt.Printf("%-50s %6.3f %8.2fs %5d MB  %d %.150q\n", attack.Name, scale, cost.Seconds(), m.HeapSys>>20,
					code, answer)
				if cost > 3*time.Second {
					break
				}
			}
		})
	}
}

// TestScan creates one object for each list and map of a built-in kind, with many elements in it,
// and prints slow ones.
func TestScan(t *testing.T) {
	if !*sweep {
		t.Skip("needs -attack.sweep")
	}
	a := newAttacked(t)
	n := 10_000
	seen := map[string]bool{}
	for _, res := range a.plane.Registry().Current().All() {
		v := res.Versions[0].Name
		obj, err := scheme.Scheme.New(res.GVK(v))
		if err != nil {
			continue
		}
		path := "/apis/" + res.Group + "/" + v
		if res.Group == "" {
			path = "/api/" + v
		}
		if res.Namespaced {
			path += "/namespaces/default"
		}
		path += "/" + res.Plural + "?dryRun=All"
		t.Run(res.Kind, func(t *testing.T) {
			fields(reflect.TypeOf(obj).Elem(), nil, seen, func(at []string, typ reflect.Type) {
				for _, variant := range []string{"{}", "named"} {
					value := many(typ, n, variant)
					if value == nil {
						continue
					}
					for _, name := range slices.Backward(at) {
						if name == "[]" {
							value = []any{value}
						} else {
							value = map[string]any{name: value}
						}
					}
					body := value.(map[string]any)
					body["apiVersion"], body["kind"] = res.GVK(v).GroupVersion().String(), res.Kind
					m, _ := body["metadata"].(map[string]any)
					if m == nil {
						m = map[string]any{}
					}
					m["name"] = "o"
					body["metadata"] = m
					raw, err := json.Marshal(body)
					require.NoError(t, err)
					if len(raw) > 3<<20 {
						continue
					}
					before := cpu()
					code, answer := a.send(t, a.root,
						bodies.Request{Method: "POST", Path: path, Media: bodies.JSON, Body: string(raw)})
					if cost := cpu() - before; cost > time.Second/2 {
						fmt.Printf("SCAN %8.2fs %4d kB %s %s %s: %d %.100q\n", cost.Seconds(), len(raw)>>10, res.Kind,
							strings.Join(at, "."), variant, code, answer)
					}
				}
			})
		})
	}
	fmt.Println("SCAN over", len(seen))
}

// fields calls each for the lists and maps of a type, once per field of each Go type.
func fields(typ reflect.Type, at []string, seen map[string]bool, each func(at []string, typ reflect.Type)) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || len(at) > 14 {
		return
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			fields(f.Type, at, seen, each)
			continue
		}
		key := typ.String() + "." + f.Name
		if name == "" || name == "-" || seen[key] {
			continue
		}
		seen[key] = true
		path := append(slices.Clone(at), name)
		switch f.Type.Kind() {
		case reflect.Slice:
			each(path, f.Type)
			fields(f.Type.Elem(), append(slices.Clone(path), "[]"), seen, each)
		case reflect.Map:
			each(path, f.Type)
		default:
			fields(f.Type, path, seen, each)
		}
	}
}

// many returns the JSON of a list or map with n elements.
func many(typ reflect.Type, n int, variant string) any {
	if typ.Kind() == reflect.Map {
		out := map[string]any{}
		for i := range n {
			switch typ.Elem().Kind() {
			case reflect.String:
				out[fmt.Sprint("k", i)] = ""
			case reflect.Slice:
				out[fmt.Sprint("k", i)] = []any{}
			default:
				out[fmt.Sprint("k", i)] = 1
			}
		}
		return out
	}
	var out []any
	elem := typ.Elem()
	for i := range n {
		switch elem.Kind() {
		case reflect.String:
			out = append(out, fmt.Sprint("a", i))
		case reflect.Struct:
			e := map[string]any{}
			for j := range elem.NumField() {
				f := elem.Field(j)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if variant == "named" && f.Type.Kind() == reflect.String && len(e) < 4 && name != "" {
					e[name] = fmt.Sprint("a", i)
				}
			}
			out = append(out, e)
		case reflect.Int32, reflect.Int64, reflect.Int:
			out = append(out, i)
		default:
			return nil
		}
	}
	return out
}
