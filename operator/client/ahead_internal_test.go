package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The continue token of a list is available as soon as the list's metadata has arrived completely.
func TestContinueIn(t *testing.T) {
	encode := map[string]func(*corev1.PodList) (codec, []byte){
		"json": func(l *corev1.PodList) (codec, []byte) {
			data, err := json.Marshal(l)
			require.NoError(t, err)
			return jsonCodec{}, data
		},
		"protobuf": func(l *corev1.PodList) (codec, []byte) {
			var data bytes.Buffer
			require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(l, &data))
			return protobufCodec{}, data.Bytes()
		},
	}
	for name, encode := range encode {
		for _, want := range []string{"", "a-token/with \"quotes\""} {
			c, data := encode(&corev1.PodList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "12", Continue: want, RemainingItemCount: new(int64(30))},
				Items:    []corev1.Pod{*podOf("a"), *podOf("b")},
			})
			since := -1
			for n := range len(data) + 1 {
				token, known := c.continueIn(data[:n])
				switch {
				case known && token != want, !known && token != "":
					t.Fatalf("%s: %q after %d bytes", name, token, n)
				case known && since < 0:
					since = n
				case !known && since >= 0:
					t.Fatalf("%s: known after %d bytes, and not after %d", name, since, n)
				}
			}
			if since < 0 || since > 150 {
				t.Errorf("%s: known after %d bytes", name, since)
			}
		}
	}
	for data, want := range map[string]string{
		`{"items":[{"metadata":{"continue":"no"}}],"metadata":{"continue":"yes"}}`: "yes true",
		`{"items":[{"metadata":{"continue":"no"}}`:                                 " false",
		`{"items":[]}`:   " false",
		`{"metadata":7}`: " false",
		`[]`:             " false",
		``:               " false",
	} {
		token, known := jsonCodec{}.continueIn([]byte(data))
		assert.Equalf(t, token+" "+strconv.FormatBool(known), want, "%s", data)
	}
	for _, data := range []string{"", magic, magic + "\x12", magic + "\x0a\x05ab", magic + "\x12\x80",
		magic + "\x12\x05\x12\x03abc", "{}"} {
		if token, known := (protobufCodec{}).continueIn([]byte(data)); known || token != "" {
			t.Errorf("%q: %q %t", data, token, known)
		}
	}
}

// slowPages serves a list with two objects per page. From the second page on, it sends only the
// beginning of a page until the following page is requested.
type slowPages struct {
	count int
	spoil map[int]string // replacement content of pages
	// closed when the page is requested; a second request for the page panics
	asked []chan struct{}
	had   atomic.Int32 // number of requested pages
}

func newSlowPages(t *testing.T, count int) (*slowPages, Client) {
	s := &slowPages{count: count, spoil: map[int]string{}}
	for range count + 1 {
		s.asked = append(s.asked, make(chan struct{}))
	}
	return s, newOver(t, s, metav1.APIResource{Name: "configmaps", Kind: "ConfigMap", Namespaced: true})
}

func (s *slowPages) RoundTrip(r *http.Request) (*http.Response, error) {
	page, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	close(s.asked[page])
	s.had.Add(1)
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "5"}}
	for n := range 2 {
		cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%d-%d", page, n)}}
		cm.Data = map[string]string{"text": strings.Repeat("x", 10<<10)}
		list.Items = append(list.Items, cm)
	}
	behind := s.asked[page]
	if page+1 < s.count {
		list.Continue = strconv.Itoa(page + 1)
		if page > 0 {
			behind = s.asked[page+1]
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	if instead, ok := s.spoil[page]; ok {
		data = []byte(instead)
	}
	head := data[:min(len(data), 2*headBytes)]
	body := io.MultiReader(bytes.NewReader(head), &awaiting{behind, r.Context().Done()},
		bytes.NewReader(data[len(head):]))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {jsonType}},
		Body: io.NopCloser(body), Request: r}, nil
}

// awaiting is an empty reader whose Read blocks.
type awaiting struct{ until, stop <-chan struct{} }

func (a *awaiting) Read([]byte) (int, error) {
	select {
	case <-a.until:
		return 0, io.EOF
	case <-a.stop:
		return 0, context.Canceled
	}
}

// A page is requested when the previous one begins to arrive; the number of buffered pages is
// bounded, and no goroutine or connection remains after the list has ended.
func TestListAheadOfTheBody(t *testing.T) {
	read := func(c Client, o ListOptions, seen func(page int)) error {
		for page := 0; ; page++ {
			items := NewItems(&corev1.ConfigMap{})
			// The context never ends, so that a leaked goroutine is found at the end of the bubble.
			if err := c.List(context.Background(), items, o); err != nil {
				return err
			}
			if len(items.Items) != 2 || items.Items[1].GetName() != fmt.Sprintf("%d-1", page) {
				return fmt.Errorf("page %d is %v", page, items.Items)
			}
			seen(page)
			if o.Continue = items.Continue; o.Continue == "" {
				return nil
			}
		}
	}
	const count = 9
	for name, spoiled := range map[string]string{
		"whole": "",
		"undecodable": `{"metadata":{"continue":"6"},"items":[{"metadata":{"name":7}}],"x":"` +
			strings.Repeat("x", 3*headBytes) + `"}`,
		"cut": `{"metadata":{"continue":"6"},"items":[],"x":"` + strings.Repeat("x", 3*headBytes),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newSlowPages(t, count)
				if spoiled != "" {
					s.spoil[5] = spoiled
				}
				pages := 0
				err := read(c, ListOptions{Limit: 2, Ahead: &Ahead{}}, func(page int) {
					pages++
					synctest.Wait()
					if had, want := int(s.had.Load()), min(page+1+pagesHeld, count); spoiled == "" && had != want {
						t.Errorf("with %d pages read, %d were requested, want %d", page+1, had, want)
					}
				})
				if spoiled == "" && (err != nil || pages != count) || spoiled != "" && (err == nil || pages != 5) {
					t.Errorf("%d pages: %v", pages, err)
				}
			})
		})
	}
	t.Run("the caller stops early", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, c := newSlowPages(t, count)
			ctx, cancel := context.WithCancel(context.Background())
			err := c.List(ctx, NewItems(&corev1.ConfigMap{}), ListOptions{Limit: 2, Ahead: &Ahead{}})
			assert.NoError(t, err)
			synctest.Wait()
			assert.Equalf(t, s.had.Load(), 1+pagesHeld, "pages were requested")
			cancel()
		})
	})
}
