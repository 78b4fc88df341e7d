package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/webhook"
)

// Ship in its three versions: the hub counts masts, one spoke has them as text, the other as a
// list.
type Ship struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Masts             int `json:"masts"`
}

type ShipV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Masts             string `json:"masts"`
}

type ShipV3 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Masts             []string `json:"masts"`
}

func (s *Ship) Hub()                             {}
func (s *Ship) DeepCopyObject() runtime.Object   { c := *s; return &c }
func (s *ShipV1) DeepCopyObject() runtime.Object { c := *s; return &c }
func (s *ShipV3) DeepCopyObject() runtime.Object { c := *s; return &c }

func (s *ShipV1) ConvertTo(hub webhook.Hub) error {
	h := hub.(*Ship)
	h.ObjectMeta = s.ObjectMeta
	_, err := fmt.Sscan(s.Masts, &h.Masts)
	return err
}

func (s *ShipV1) ConvertFrom(hub webhook.Hub) error {
	h := hub.(*Ship)
	s.ObjectMeta, s.Masts = h.ObjectMeta, fmt.Sprint(h.Masts)
	return nil
}

func (s *ShipV3) ConvertTo(hub webhook.Hub) error {
	h := hub.(*Ship)
	h.ObjectMeta, h.Masts = s.ObjectMeta, len(s.Masts)
	return nil
}

func (s *ShipV3) ConvertFrom(hub webhook.Hub) error {
	h := hub.(*Ship)
	if h.Masts < 0 {
		panic("negative number of masts")
	}
	if h.Masts > 9 {
		return errors.New("too many masts")
	}
	s.ObjectMeta, s.Masts = h.ObjectMeta, strings.Split(strings.Repeat(",m", h.Masts)[1:], ",")
	return nil
}

func ships(versions map[string]runtime.Object) *runtime.Scheme {
	s := runtime.NewScheme()
	for version, obj := range versions {
		s.AddKnownTypeWithName(schema.GroupVersionKind{Group: "sea.example.com", Version: version, Kind: "Ship"}, obj)
	}
	return s
}

// Objects are converted between all versions through the hub. If one fails, the response is a
// failure with the cause.
func TestConversion(t *testing.T) {
	c := webhook.NewConversion(ships(map[string]runtime.Object{"v1": &ShipV1{}, "v2": &Ship{}, "v3": &ShipV3{}}))
	must(t, c.Check(schema.GroupKind{Group: "sea.example.com", Kind: "Ship"}))
	ship := func(version, masts string) string {
		return fmt.Sprintf(`{"kind":"Ship","apiVersion":"sea.example.com/%s","metadata":{"name":"pinta","uid":"1"},"masts":%s}`, version, masts)
	}
	for _, tt := range []struct{ name, to, objects, want string }{
		{"spoke to hub", "v2", ship("v1", `"3"`), ship("v2", "3")},
		{"hub to spoke", "v1", ship("v2", "3"), ship("v1", `"3"`)},
		{"spoke to spoke", "v3", ship("v1", `"2"`), ship("v3", `["m","m"]`)},
		{"as it is", "v1", ship("v1", `"x"`), ship("v1", `"x"`)},
		{"several", "v2", ship("v1", `"3"`) + "," + ship("v3", `["a"]`), ship("v2", "3") + "," + ship("v2", "1")},
		{"none", "v2", "", ""},
		{"one of several fails", "v3", ship("v2", "1") + "," + ship("v2", "12"),
			"convert sea.example.com/v2 to sea.example.com/v3: too many masts"},
		{"panic", "v3", ship("v2", "-1"), "panic: negative number of masts"},
		{"unknown version", "v9", ship("v2", "1"), "no kind"},
		{"no object", "v2", `{"kind":7}`, "convert: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"7","desiredAPIVersion":"sea.example.com/%s","objects":[%s]}}`,
				tt.to, tt.objects)
			r := httptest.NewRequest("POST", "/convert", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			var answer struct {
				Kind     string
				Response struct {
					UID              string
					ConvertedObjects []json.RawMessage
					Result           metav1.Status
				}
			}
			must(t, json.Unmarshal(w.Body.Bytes(), &answer))
			resp := answer.Response
			if answer.Kind != "ConversionReview" || resp.UID != "7" {
				t.Errorf("got %s", w.Body)
			}
			var got []string
			for _, o := range resp.ConvertedObjects {
				got = append(got, string(o))
			}
			if resp.Result.Status == metav1.StatusSuccess && strings.Join(got, ",") != tt.want ||
				resp.Result.Status == metav1.StatusFailure &&
					(tt.want == "" || !strings.Contains(resp.Result.Message, tt.want)) {
				t.Errorf("got %s %s %s\nwant %s", resp.Result.Status, resp.Result.Message, got, tt.want)
			}
		})
	}
}

// A kind needs exactly one hub, and its other versions must be convertible.
func TestConversionNeedsAHub(t *testing.T) {
	kind := schema.GroupKind{Group: "sea.example.com", Kind: "Ship"}
	for name, versions := range map[string]map[string]runtime.Object{
		"none of its versions is a hub":      {"v1": &ShipV1{}},
		"implements neither webhook.Hub nor": {"v2": &Ship{}, "v4": &metav1.PartialObjectMetadata{}},
		"it has two hubs":                    {"v2": &Ship{}, "v5": &otherHub{}},
	} {
		assert.ErrorContains(t, webhook.NewConversion(ships(versions)).Check(kind), name)
	}
}

type otherHub struct{ Ship }

func (o *otherHub) DeepCopyObject() runtime.Object { c := *o; return &c }
