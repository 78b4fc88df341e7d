package explore

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Operators put the time into names: a Unix time, or a date and a time of day. A fault that delays
// the creation changes such a name. The times of a run are known, so what has the form of a time
// and is one of the run counts as one. In virtual time, the year is 2000.

// A time of a run is at most earlyTimes before its begin, because of time zones, or lateNames after
// it, because a schedule may name the next time. For values, that is lateValues: other numbers may
// look like times of a year.
const (
	earlyTimes = 24 * time.Hour
	lateNames  = 366 * 24 * time.Hour
	lateValues = 31 * 24 * time.Hour
)

var (
	dateForm = regexp.MustCompile(`\d{4}[-_.]?\d{2}[-_.]?\d{2}` +
		`(?:[-_.tT ]?\d{2}(?:[-_.:]?\d{2}(?:[-_.:]?\d{2})?)?)?[zZ]?`)
	numberForm     = regexp.MustCompile(`\d{8,19}`)
	dateSeparators = strings.NewReplacer("-", "", "_", "", ".", "", ":", "", " ", "", "t", "", "T", "", "z", "",
		"Z", "")
)

// dateLayouts are the layouts of dateForm without dateSeparators, by their length.
var dateLayouts = map[int]string{8: "20060102", 10: "2006010215", 12: "200601021504", 14: "20060102150405"}

// units are those in which numbers count the time since 1970. Kubernetes' CronJob controller puts
// minutes into the names of Jobs.
var units = []time.Duration{time.Minute, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

// ofRun reports whether a time is one of the run.
func (n *names) ofRun(t time.Time, late time.Duration) bool {
	since := t.Sub(n.began)
	return since >= -earlyTimes && since <= late
}

// withoutTimes replaces the times of the run in a name by *.
func (n *names) withoutTimes(name string) string {
	if !numberForm.MatchString(dateSeparators.Replace(name)) {
		return name // the usual case
	}
	name = replaceWhole(dateForm, name, func(text string) bool { return n.isDate(text, lateNames) })
	return replaceWhole(numberForm, name, func(digits string) bool { return n.isUnix(digits, units, lateNames) })
}

// isTime reports whether a text is a time of the run: a date with a time of day, or a Unix time.
// Dates alone and minutes are not, because their values have few digits.
func (n *names) isTime(text string) bool {
	if numberForm.FindString(text) == text {
		return n.isUnix(text, units[1:], lateValues)
	}
	return len(text) > len("2006-01-02") && dateForm.FindString(text) == text && n.isDate(text, lateValues)
}

// isDate reports whether a text of dateForm is a time of the run.
func (n *names) isDate(text string, late time.Duration) bool {
	digits := dateSeparators.Replace(text)
	t, err := time.Parse(dateLayouts[len(digits)], digits)
	return err == nil && n.ofRun(t, late)
}

// isUnix reports whether a number is a time of the run in one of some units.
func (n *names) isUnix(digits string, units []time.Duration, late time.Duration) bool {
	number, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && n.isUnixNumber(number, units, late)
}

func (n *names) isUnixNumber(number int64, units []time.Duration, late time.Duration) bool {
	for _, unit := range units {
		perSecond := int64(time.Second / unit)
		if perSecond == 0 {
			if n.ofRun(time.Unix(number*int64(unit/time.Second), 0), late) {
				return true
			}
		} else if n.ofRun(time.Unix(number/perSecond, 0), late) {
			return true
		}
	}
	return false
}

// replaceWhole replaces the matches of a form that are not parts of longer numbers by *.
func replaceWhole(form *regexp.Regexp, text string, replaced func(string) bool) string {
	digit := func(i int) bool { return i >= 0 && i < len(text) && '0' <= text[i] && text[i] <= '9' }
	var b strings.Builder
	rest := 0
	for _, at := range form.FindAllStringIndex(text, -1) {
		if !digit(at[0]-1) && !digit(at[1]) && replaced(text[at[0]:at[1]]) {
			b.WriteString(text[rest:at[0]] + "*")
			rest = at[1]
		}
	}
	return b.String() + text[rest:]
}
