// Command main is the operator writes-a-child-back of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("writes-a-child-back") }
