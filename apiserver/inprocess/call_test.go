package inprocess_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/inprocess"
)

func TestCall(t *testing.T) {
	transport := &inprocess.Transport{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		switch req.URL.Path {
		case "/status":
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409,"message":"there is one"}`)
		case "/text":
			http.Error(w, "no such path", http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, strings.Join([]string{req.Method, req.URL.RawQuery, req.Header.Get("Content-Type"),
				req.UserAgent(), string(body)}, "|"))
		}
	})}
	for _, test := range []struct {
		call inprocess.Call
		want string
	}{
		{inprocess.Call{Path: "/a?b=c"}, "GET|b=c|||"},
		{inprocess.Call{Method: "POST", Path: "/", Body: map[string]int{"n": 1}, UserAgent: "me"},
			`POST||application/json|me|{"n":1}`},
		{inprocess.Call{Method: "PATCH", Path: "/", Body: []byte("x"), ContentType: "text/plain"},
			"PATCH||text/plain||x"},
	} {
		if answer, err := test.call.Do(t.Context(), transport); err != nil || string(answer) != test.want {
			t.Errorf("%+v: %s, %v, want %s", test.call, answer, err, test.want)
		}
	}

	_, err := inprocess.Call{Method: "POST", Path: "/status"}.Do(t.Context(), transport)
	if !apierrors.IsAlreadyExists(err) || err.Error() != "there is one" {
		t.Errorf("%v, want the Status", err)
	}
	_, err = inprocess.Call{Path: "/text"}.Do(t.Context(), transport)
	if apierrors.ReasonForError(err) != metav1.StatusReasonNotFound || !strings.Contains(err.Error(), "no such path") {
		t.Errorf("%v, want 404 with the text", err)
	}
	if _, err := (inprocess.Call{Method: "bad method", Path: "/"}).Do(t.Context(), transport); err == nil {
		t.Error("a request with a malformed method was sent")
	}
}
