package filters

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/rest/wire"
)

// noted gives each request an ID, which the response shows, and starts its audit record. Later
// stages may annotate the record. The audit policy decides how much of it is stored, after the user
// has been authenticated.
func (c *Chain) noted(next http.Handler) http.Handler {
	if !c.audits() {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header()[auditHeader] = auditID(req)
			next.ServeHTTP(w, req)
		})
	}
	init := filters.WithAuditInit(next)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		if audit.AuditContextFrom(ctx) != nil {
			ctx = within{ctx} // a nested request in process has its own record
		}
		init.ServeHTTP(w, req.WithContext(ctx))
	})
}

// auditHeader is the header with the ID of a request, in canonical form.
const auditHeader = "Audit-Id"

// auditID returns the ID of a request: the client's, unchanged, or a random UUID. No check depends
// on these IDs, so the generator need not be a cryptographic one.
func auditID(req *http.Request) []string {
	if given := req.Header[auditHeader]; len(given) > 0 && given[0] != "" {
		return given[:1:1]
	}
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, of RFC 9562
	return []string{uuid.UUID(id).String()}
}

// within is a context that hides the audit record of the enclosing request.
type within struct{ context.Context }

func (w within) Value(key any) any {
	v := w.Context.Value(key)
	if _, ok := v.(*audit.AuditContext); ok {
		return nil
	}
	return v
}

func (c *Chain) audits() bool { return c.cfg.AuditPolicy != nil && c.cfg.AuditSink != nil }

// refused records a request without an authenticated user.
func (c *Chain) refused(answer http.Handler) http.Handler {
	if !c.audits() {
		return answer
	}
	return filters.WithFailedAuthenticationAudit(answer, c.cfg.AuditSink, c.cfg.AuditPolicy)
}

// audited records a request by the policy, once in each stage: RequestReceived, ResponseStarted
// (long-running requests only), and ResponseComplete or Panic.
func (c *Chain) audited(next http.Handler) http.Handler {
	if !c.audits() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		ac := audit.AuditContextFrom(ctx)
		attributes, err := filters.GetAuthorizerAttributes(ctx)
		if err == nil {
			rule := c.cfg.AuditPolicy.EvaluatePolicyRule(attributes)
			audit.ObservePolicyLevel(ctx, rule.Level)
			err = ac.Init(rule, c.cfg.AuditSink)
		}
		if err != nil {
			c.cfg.Log.Error("begin an audit event", "err", err)
			wire.Error(w, req, apierrors.NewInternalError(errors.New("failed to create audit event")))
			return
		}
		if !ac.Enabled() {
			next.ServeHTTP(w, req)
			return
		}
		received, _ := request.ReceivedTimestampFrom(ctx)
		audit.LogRequestMetadata(ctx, req, received, attributes)
		if !ac.ProcessEventStage(ctx, auditinternal.StageRequestReceived) {
			audit.ApiserverAuditDroppedCounter.WithContext(ctx).Inc()
			wire.Error(w, req, apierrors.NewInternalError(errors.New("failed to store audit event")))
			return
		}
		rec := &auditRecorder{ResponseWriter: w, req: req, ac: ac, long: callOf(req).longRunning}
		defer rec.end()
		next.ServeHTTP(rec, req)
	})
}

// auditRecorder records the beginning and the end of a response.
type auditRecorder struct {
	http.ResponseWriter
	req   *http.Request
	ac    *audit.AuditContext
	long  bool
	begun bool
}

func (r *auditRecorder) begin(code int) {
	if r.begun || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	r.begun = true
	r.ac.SetEventResponseStatusCode(int32(code))
	if r.long {
		r.ac.ProcessEventStage(r.req.Context(), auditinternal.StageResponseStarted)
	}
}

// end ends the record. It must be deferred: it records a panic and panics again.
func (r *auditRecorder) end() {
	if p := recover(); p != nil {
		r.ac.SetEventResponseStatus(&metav1.Status{
			Code: http.StatusInternalServerError, Status: metav1.StatusFailure,
			Reason:  metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("APIServer panic'd: %v", p),
		})
		r.ac.ProcessEventStage(r.req.Context(), auditinternal.StagePanic)
		panic(p)
	}
	if !r.begun { // nothing was sent: the connection closed early
		r.begin(http.StatusOK)
		r.ac.SetEventResponseStatus(&metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess,
			Message: "Connection closed early"})
	}
	r.ac.ProcessEventStage(r.req.Context(), auditinternal.StageResponseComplete)
}

func (r *auditRecorder) WriteHeader(code int) {
	r.begin(code)
	r.ResponseWriter.WriteHeader(code)
}

func (r *auditRecorder) Write(p []byte) (int, error) {
	r.begin(http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (r *auditRecorder) Flush() {
	r.begin(http.StatusOK)
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker].
func (r *auditRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.begin(http.StatusSwitchingProtocols)
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap supports http.ResponseController.
func (r *auditRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
