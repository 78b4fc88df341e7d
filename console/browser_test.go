package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kelson.dev/console"
	"kelson.dev/internal/require"
)

// stepTime bounds the wait for one condition of a page. It is long, because machines that run the
// tests are busy.
const stepTime = 60 * time.Second

// tab is a page of a browser. It fails the test if the page logs an error, runs a dialog, or sends
// a request to another host.
type tab struct {
	t    testing.TB
	ctx  context.Context
	base string

	mu       sync.Mutex
	requests []string // hosts
	problems []string
}

// open opens the console in a tab that closes at the end of the test.
func open(t testing.TB, c *console.Console) *tab {
	t.Helper()
	return openURL(t, c.URL())
}

// openURL opens the address of a console, with its token.
func openURL(t testing.TB, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx}
	b.base, _, _ = strings.Cut(url, "/?")
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Errorf("page: %s", p)
		}
		for _, url := range b.requests {
			if !strings.HasPrefix(url, b.base+"/") && !strings.HasPrefix(url, "data:") {
				t.Errorf("page requests %s", url)
			}
		}
	})
	require.NoError(t, chromedp.Listen(ctx, b.event))
	b.do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(url))
	b.until(`location.search === '' && document.querySelector('nav.side a') !== null`)
	return b
}

func (b *tab) event(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.problems = append(b.problems, text)
	case *cdplog.EventEntryAdded:
		// the tests expect refused requests, and the page shows them
		if e.Entry.Level == "error" && e.Entry.Source != "network" {
			b.problems = append(b.problems, e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		b.problems = append(b.problems, "dialog: "+e.Message)
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.fatal(err)
	}
}

func (b *tab) fatal(err error) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.t.Fatalf("%v\n%s", err, strings.Join(b.problems, "\n"))
}

// eval evaluates an expression of JavaScript, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.fatal(fmt.Errorf("%s: %w", expression, err))
	}
	return value
}

// until waits until an expression of JavaScript is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	b.within(stepTime, expression)
}

// within waits until an expression of JavaScript is true, and fails the test after a time.
func (b *tab) within(limit time.Duration, expression string) {
	b.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")", chromedp.EvalAwaitPromise))
		switch {
		case err == nil && holds:
			return
		case err != nil && !strings.Contains(err.Error(), "navigated or closed"):
			b.fatal(fmt.Errorf("%s: %w", expression, err))
		}
		// Otherwise the condition is false, or the page was navigating: then the next evaluation
		// uses the new page.
		if time.Now().After(deadline) {
			text := eval[string](b, `document.body.innerText`)
			b.capture(filepath.Join("..", "bin", "console"), "failed-"+strings.ReplaceAll(b.t.Name(), "/", "-"))
			b.t.Fatalf("%s: not true after %s; the page shows\n%s", expression, limit, text)
		}
		time.Sleep(20 * time.Millisecond) // polls, because the browser is another process
	}
}

// shows waits until the page shows a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.until(`document.body.innerText.includes(` + quoted(text) + `)`)
}

func quoted(s string) string {
	data, _ := json.Marshal(s) // strings can always be encoded
	return string(data)
}

func (b *tab) goTo(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
	// the page sets the title after it has bound the keys
	b.until(`document.title !== 'Kelson' && document.querySelector('nav.side a') !== null`)
}

// press presses keys one after the other, with modifiers.
func (b *tab) press(keys string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...), func(event *input.DispatchKeyEventParams) {
		// The page prevents the default action of the shortcut /, so a browser sends no character
		// to the element that then has the focus. chromedp would send one; a second release of the
		// key replaces it.
		if keys == "/" && event.Type == kb.KeyChar {
			event.Type, event.Text, event.UnmodifiedText = kb.KeyUp, "", ""
		}
	}))
}

// shot writes a screenshot to the folder KELSON_SCREENSHOTS, if it is set. No test reads them, and
// Chromium takes much of its processor time for them.
func (b *tab) shot(name string) {
	b.t.Helper()
	if dir := os.Getenv("KELSON_SCREENSHOTS"); dir != "" {
		b.capture(dir, name)
	}
}

func (b *tab) capture(dir, name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.fatal(err)
	}
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

func (b *tab) dark(on bool) {
	b.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
	if err != nil {
		b.fatal(err)
	}
}
