package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"weir/db/dbsqlc"
)

// tokenLookupTimeout bounds one reading of tokens.
const tokenLookupTimeout = 10 * time.Second

// tokenLookup finds tokens by their hash, many with one statement: the requests that come while one reading is under way share the next.
// None is answered by a reading that began before it came, so a token that was revoked is refused from then on. With 64 clients that
// publish, looking up each request's token by itself took a tenth of the server's and of Postgres' time.
type tokenLookup struct {
	read func(ctx context.Context, hashes [][]byte) ([]dbsqlc.APITokenListByHashRow, error)

	mu      sync.Mutex
	waiting []tokenAsk
	reading bool
}

type tokenHash [sha256.Size]byte

type tokenAsk struct {
	hash  tokenHash
	reply chan tokenAnswer
}

// tokenAnswer holds nil for a token that is not known.
type tokenAnswer struct {
	row *dbsqlc.APITokenListByHashRow
	err error
}

// find returns nil for a token that is not known or was revoked.
func (l *tokenLookup) find(ctx context.Context, hash tokenHash) (*dbsqlc.APITokenListByHashRow, error) {
	reply := make(chan tokenAnswer, 1)
	l.mu.Lock()
	l.waiting = append(l.waiting, tokenAsk{hash, reply})
	if !l.reading {
		l.reading = true
		go l.run()
	}
	l.mu.Unlock()
	select {
	case answer := <-reply:
		return answer.row, answer.err
	case <-ctx.Done():
		return nil, fmt.Errorf("look up token: %w", ctx.Err())
	}
}

// run reads until nobody waits.
func (l *tokenLookup) run() {
	for {
		l.mu.Lock()
		asks := l.waiting
		l.waiting = nil
		l.reading = len(asks) > 0
		l.mu.Unlock()
		if len(asks) == 0 {
			return
		}
		found, err := l.readAll(asks)
		for _, ask := range asks {
			ask.reply <- tokenAnswer{found[ask.hash], err}
		}
	}
}

func (l *tokenLookup) readAll(asks []tokenAsk) (map[tokenHash]*dbsqlc.APITokenListByHashRow, error) {
	found := make(map[tokenHash]*dbsqlc.APITokenListByHashRow, 1)
	var hashes [][]byte
	for _, ask := range asks {
		if _, ok := found[ask.hash]; !ok {
			found[ask.hash] = nil
			hashes = append(hashes, ask.hash[:])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tokenLookupTimeout)
	defer cancel()
	rows, err := l.read(ctx, hashes)
	if err != nil {
		return nil, fmt.Errorf("look up tokens: %w", err)
	}
	for i := range rows {
		found[tokenHash(rows[i].TokenHash)] = &rows[i]
	}
	return found, nil
}
