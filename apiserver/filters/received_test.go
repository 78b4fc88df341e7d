package filters_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const configMaps = "http://kelson/api/v1/namespaces/x/configmaps"

// echo responds with the length of the body, or with the error of reading it.
var echo = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, len(data))
})

func send(ctx context.Context, h http.Handler, method, url string, body io.Reader, header ...string) (int, string) {
	req, _ := http.NewRequestWithContext(ctx, method, url, body)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := (&inprocess.Transport{Handler: h}).RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// Probes are served when no seat is left, and other requests are not.
func TestProbesTakeNoSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := filters.New(filters.Config{MaxInFlight: 1, MaxMutatingInFlight: 1,
			Resources: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end })})
		go send(t.Context(), c, "GET", configMaps, nil)
		go send(t.Context(), c, "POST", configMaps, nil)
		synctest.Wait()
		for request, want := range map[string]int{
			"GET /readyz": 200, "GET /livez?verbose": 200, "GET /healthz/ping": 200, "HEAD /readyz": 200,
			"GET /healthz/nothing": 404,
			"GET /version":         429, "POST /readyz": 429, "GET /readyzz": 429, "GET /": 429,
			"GET /api/v1/namespaces/x/configmaps": 429,
		} {
			method, path, _ := strings.Cut(request, " ")
			if code, answer := send(t.Context(), c, method, "http://kelson"+path, nil); code != want {
				t.Errorf("%s: %d, want %d: %s", request, code, want, answer)
			}
		}
		close(end)
	})
}

// The responses of health checks are bounded for all requests.
func TestHealthIsBounded(t *testing.T) {
	c := filters.New(filters.Config{})
	w := get(c, "/healthz?verbose"+strings.Repeat("&exclude="+strings.Repeat("n", 500), 1000))
	if w.Code != 200 || w.Body.Len() > 2<<10 || !strings.Contains(w.Body.String(), " and 984 more") {
		t.Errorf("%d, %d bytes: %.300s", w.Code, w.Body.Len(), w.Body)
	}
	if w := get(c, "/healthz?verbose&exclude=a&exclude=ping"); !strings.Contains(w.Body.String(),
		`no matches for ["a"]`) {
		t.Error(w.Body)
	}
}

// If a client does not read its response, the response ends and its seat becomes free.
func TestUnreadResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filters.New(filters.Config{MaxInFlight: 1,
			Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Query().Has("large") {
					w.Write(make([]byte, 1<<20))
				}
			})})
		req, _ := http.NewRequestWithContext(t.Context(), "GET", configMaps+"?large=1", nil)
		resp, err := (&inprocess.Transport{Handler: c}).RoundTrip(req)
		require.NoError(t, err)
		code, _ := send(t.Context(), c, "GET", configMaps, nil)
		assert.Equalf(t, code, 429, "request while the client does not read")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if code, answer := send(t.Context(), c, "GET", configMaps, nil); code != 200 {
			t.Errorf("after the stall: %d %s", code, answer)
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the response is complete although the client did not read it")
		}
	})
}

// A client that reads slowly but steadily gets the whole response, up to the deadline.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filters.New(filters.Config{Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Write(make([]byte, 2<<20))
		})})
		read := func(every time.Duration) (n int, err error) {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", configMaps, nil)
			resp, err := (&inprocess.Transport{Handler: c}).RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			part := make([]byte, 64<<10)
			for err == nil {
				time.Sleep(every)
				var m int
				m, err = io.ReadFull(resp.Body, part)
				n += m
			}
			return n, err
		}
		if n, err := read(time.Second); n != 2<<20 || err != io.EOF {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := read(4 * time.Second); n == 2<<20 || err == io.EOF {
			t.Errorf("after the deadline: %d bytes, %v", n, err)
		}
	})
}

// A body that does not arrive takes no seat. The response is 504 if the body makes no progress, is
// too slow, or exceeds the deadline. A body that makes progress is read completely. Long-running
// requests read their bodies themselves.
func TestSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filters.New(filters.Config{MaxInFlight: 1, MaxMutatingInFlight: 1, Resources: echo})
		upload := func(method, url string, parts, size int, every time.Duration) (string, time.Duration) {
			r, w := io.Pipe()
			go func() {
				for range parts {
					time.Sleep(every)
					if _, err := w.Write(make([]byte, size)); err != nil {
						return
					}
				}
				if every < time.Hour {
					w.Close()
				}
			}()
			start := time.Now()
			code, answer := send(t.Context(), c, method, url, r)
			return fmt.Sprint(code, " ", answer), time.Since(start)
		}
		for _, test := range []struct {
			what         string
			parts, size  int
			every, after time.Duration
			want         string
		}{
			{"nothing", 1, 1, 2 * time.Hour, 10 * time.Second, "504 "},
			{"a byte a second", 100, 1, time.Second, 10 * time.Second, "504 "},
			{"20 KB, and no more", 20, 1 << 10, 0, 0, "200 20480"},
			{"8 KB a second", 50, 8 << 10, time.Second, 50 * time.Second, "200 409600"},
			{"8 KB a second for too long", 100, 8 << 10, time.Second, time.Minute, "504 "},
		} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				answer, took := upload("POST", configMaps, test.parts, test.size, test.every)
				if !strings.HasPrefix(answer, test.want) || took.Truncate(time.Second) != test.after {
					t.Errorf("%s: %s after %s", test.what, answer, took)
				}
				if test.want == "504 " && !strings.Contains(answer,
					`"message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504`) {
					t.Errorf("%s: %s", test.what, answer)
				}
			}()
			synctest.Wait()
			if code, answer := send(t.Context(), c, "POST", configMaps, strings.NewReader("other")); code != 200 ||
				answer != "5" {
				t.Errorf("request during %s: %d %s", test.what, code, answer)
			}
			<-done
		}
		if answer, took := upload("POST", configMaps+"/p/exec", 100, 1, time.Second); answer != "200 100" ||
			took != 100*time.Second {
			t.Errorf("exec: %s after %s", answer, took)
		}
		time.Sleep(3 * time.Hour) // until the first one ends
	})
}

// A request whose body has not arrived takes memory for its head, too.
func TestBudgetOfHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filters.New(filters.Config{Resources: echo, Bodies: filters.Bodies{Total: 1 << 20}})
		head := "X-Large: " + strings.Repeat("x", 100<<10)
		r, w := io.Pipe()
		first := make(chan string, 1)
		go func() {
			code, answer := send(t.Context(), c, "POST", configMaps, r, head)
			first <- fmt.Sprint(code, " ", answer)
		}()
		synctest.Wait()
		if code, answer := send(t.Context(), c, "POST", configMaps, strings.NewReader("body"), head); code != 429 {
			t.Errorf("a second large head: %d %s", code, answer)
		}
		w.Close()
		assert.Equalf(t, <-first, "200 0", "the first")
		if code, answer := send(t.Context(), c, "POST", configMaps, strings.NewReader("body"), head); code != 200 ||
			answer != "4" {
			t.Errorf("after the first: %d %s", code, answer)
		}
	})
}

// Handlers read the rest of a body that is too large, and get errors of its transfer.
func TestLargeAndMalformedBodies(t *testing.T) {
	var atOnce string
	c := filters.New(filters.Config{MaxBody: 1000,
		Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			whole, ok := req.Body.(interface{ Rest() ([]byte, bool) })
			if atOnce = ""; ok {
				if data, ok := whole.Rest(); ok {
					atOnce = string(data)
					req.Body = io.NopCloser(bytes.NewReader(data))
				}
			}
			echo(w, req)
		})})
	for _, test := range []struct {
		body io.Reader
		want string
		rest bool
	}{
		{strings.NewReader(strings.Repeat("x", 999)), "200 999", true},
		{strings.NewReader(strings.Repeat("x", 1000)), "200 1000", true},
		{strings.NewReader(strings.Repeat("x", 1001)), "200 1001", false},
		{strings.NewReader(strings.Repeat("x", 100_000)), "200 100000", false},
		{io.MultiReader(strings.NewReader("x"), strings.NewReader(strings.Repeat("x", 1500))), "200 1501", false},
		{io.MultiReader(strings.NewReader("x"), failing{}), "400 broken\n", false},
	} {
		code, answer := send(t.Context(), c, "POST", configMaps, test.body)
		if got := fmt.Sprint(code, " ", answer); got != test.want || (atOnce != "") != test.rest {
			t.Errorf("%q with %d bytes at once, want %q", got, len(atOnce), test.want)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

// The bodies of a user, and of all users, share a limited amount of memory. Other bodies wait for
// it, and get 429 if they wait too long. Bodies of administrators do not wait.
func TestBudgetOfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := filters.New(filters.Config{
			MaxMutatingInFlight: -1,
			Bodies:              filters.Bodies{Total: 100_000, PerUser: 40_000},
			Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				<-end
				echo(w, req)
			}),
		})
		fiveKB := strings.Repeat("x", 5000) // decoding it takes about 30,000 bytes
		post := func(who string, size int, groups ...string) chan string {
			answer := make(chan string, 1)
			go func() {
				req := httptest.NewRequest("POST", configMaps, strings.NewReader(strings.Repeat(fiveKB, size/5000)))
				req = req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: who, Groups: groups}))
				w := httptest.NewRecorder()
				start := time.Now()
				c.ServeHTTP(w, req)
				answer <- fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"), " after ", time.Since(start), ": ",
					strings.TrimSpace(w.Body.String()))
			}()
			synctest.Wait()
			return answer
		}
		a1, a2 := post("ann", 5000), post("ann", 5000)
		b1, d1 := post("bob", 5000), post("dan", 5000)
		root := post("root", 5000, user.SystemPrivilegedGroup)
		e1 := post("eve", 5000)
		big := post("cem", 10_000) // more than half of the total: the handler returns the error
		time.Sleep(15 * time.Second)
		if got := <-a2; !strings.HasPrefix(got, "429 1 after 15s") {
			t.Errorf("a user's second body: %s", got)
		}
		if got := <-e1; !strings.HasPrefix(got, "429 1 after 15s") {
			t.Errorf("beyond the limit of all users: %s", got)
		}
		a3 := post("ann", 5000)
		close(end)
		for who, answer := range map[string]chan string{"ann": a1, "bob": b1, "dan": d1, "root": root,
			"ann again": a3} {
			if got := <-answer; !strings.HasPrefix(got, "200 ") {
				t.Errorf("%s: %s", who, got)
			}
		}
		if got := <-big; !strings.HasPrefix(got, "400 ") ||
			!strings.Contains(got, "decoding it takes about 60000 bytes of memory, limit is 50000") {
			t.Errorf("a large body: %s", got)
		}
	})
}
