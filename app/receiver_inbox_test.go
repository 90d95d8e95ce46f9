package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"weir/db/dbtest"
)

// eachInbox runs test with both kinds of inbox.
func eachInbox(t *testing.T, test func(t *testing.T, options receiverOptions)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		test(t, receiverOptions{})
	})
	t.Run("in Postgres", func(t *testing.T) {
		t.Parallel()
		test(t, receiverOptions{DatabaseURL: dbtest.DSN(t)})
	})
}

func TestReceiverAppliesOnce(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)

		require.Contains(t, b.deliver("/acme", "evt_1", http.StatusOK).text, `"duplicate": false`)
		require.Contains(t, b.deliver("/acme", "evt_1", http.StatusOK).text, `"duplicate": true`)
		require.Contains(t, b.deliver("/other", "evt_1", http.StatusOK).text, `"duplicate": false`, "another destination is owed it too")

		// the same id with other bytes has no effect either, and is told apart
		res, err := b.post(t.Context(), "/acme", "", "evt_1", "other bytes", nil)
		require.NoError(t, err)
		require.Contains(t, res.text, `"duplicate": true`)

		var got struct {
			counts
			StoredEffects int64                           `json:"stored_effects"`
			Events        receiverList[receiverEventItem] `json:"events"`
		}
		b.control(http.MethodGet, "/-/counts?path=/acme", "", http.StatusOK, &got)
		require.EqualValues(t, 3, got.Requests)
		require.EqualValues(t, 1, got.Effects)
		require.EqualValues(t, 1, got.StoredEffects)
		require.EqualValues(t, 2, got.Duplicates)
		require.EqualValues(t, 1, got.Conflicts)
		require.Equal(t, []receiverEventItem{{"evt_1", 3, 1}}, got.Events.Items)
		require.Nil(t, got.Events.NextAfter)
	})
}

func TestReceiverAppliesOnceConcurrently(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)
		const posts = 50
		answers := make([]string, posts)
		start := make(chan struct{})
		var group sync.WaitGroup
		for i := range posts {
			group.Go(func() {
				<-start
				res, err := b.post(t.Context(), "/acme", "", "evt_1", "{}", nil)
				if err == nil {
					answers[i] = strconv.Itoa(res.StatusCode) + " " + res.text
				}
			})
		}
		close(start)
		group.Wait()

		applied := 0
		for _, answer := range answers {
			require.True(t, strings.HasPrefix(answer, "200 "), answer)
			if strings.Contains(answer, `"duplicate": false`) {
				applied++
			}
		}
		require.Equal(t, 1, applied)
		stored, err := b.inbox.Effects(t.Context(), "/acme")
		require.NoError(t, err)
		require.EqualValues(t, 1, stored)
		require.EqualValues(t, posts-1, b.Counts("/acme").Duplicates)
	})
}

func TestReceiverVersionNeverMovesBack(t *testing.T) {
	t.Parallel()
	eachInbox(t, func(t *testing.T, options receiverOptions) {
		b := setupReceiver(t, options)
		send := func(version string) error {
			header := map[string]string{"weir-subject": "shp_1", "weir-event-type": "shipment.updated"}
			if version != "" {
				header["weir-version"] = version
			}
			res, err := b.post(t.Context(), "/acme", "", "evt_v"+version, "version "+version, header)
			if err == nil && res.StatusCode != http.StatusOK {
				err = errors.New(res.Status + " " + res.text)
			}
			return err
		}
		at := func(version int64) {
			t.Helper()
			s, ok, err := b.inbox.Shipment(t.Context(), "/acme", "shp_1")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, version, s.Version)
			require.Equal(t, fmt.Sprintf("evt_v%d", version), s.EventID)
			require.Equal(t, sha256.Sum256(fmt.Appendf(nil, "version %d", version)), s.BodySHA256)
		}

		for _, step := range []struct {
			version string
			then    int64
		}{{"2", 2}, {"1", 2}, {"", 2}, {"5", 5}, {"2", 5}, {"4", 5}} {
			require.NoError(t, send(step.version))
			at(step.then)
		}

		// all at once, in whatever order
		var group sync.WaitGroup
		errs := make(chan error, 20)
		for version := 6; version <= 25; version++ {
			group.Go(func() { errs <- send(strconv.Itoa(version)) })
		}
		group.Wait()
		for range 20 {
			require.NoError(t, <-errs)
		}
		at(25)
		require.EqualValues(t, 25, b.Counts("/acme").Effects, "the older ones took effect too: only the status stays")

		require.ErrorContains(t, send("two"), "weir-version")
		var shipment map[string]any
		b.control(http.MethodGet, "/-/shipment?path=/acme&subject=shp_1", "", http.StatusOK, &shipment)
		require.EqualValues(t, 25, shipment["version"])
		b.control(http.MethodGet, "/-/shipment?path=/acme&subject=shp_2", "", http.StatusNotFound, nil)
	})
}

func TestReceiverKeepsItsInboxAcrossARestart(t *testing.T) {
	t.Parallel()
	options := receiverOptions{DatabaseURL: dbtest.DSN(t), LogRequests: true}
	first := setupReceiver(t, options)
	first.deliver("/acme", "evt_1", http.StatusOK)
	first.deliver("/acme", "evt_1", http.StatusOK)
	first.deliver("/acme?status=500", "evt_2", http.StatusInternalServerError)
	first.Close()

	second := setupReceiver(t, options)
	require.Contains(t, second.deliver("/acme", "evt_1", http.StatusOK).text, `"duplicate": true`)
	stored, err := second.inbox.Effects(t.Context(), "/acme")
	require.NoError(t, err)
	require.EqualValues(t, 1, stored)
	second.Close()

	conn, err := pgx.Connect(t.Context(), options.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT event_id || ' ' || status || ' ' || outcome || ' ' || length(body_sha256) FROM receiver.request ORDER BY id`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"evt_1 200 applied 32", "evt_1 200 duplicate 32", "evt_2 500 tempered 32", "evt_1 200 duplicate 32"}, lines)
}

func TestReceiverAnswers503WithoutItsInbox(t *testing.T) {
	t.Parallel()
	b := setupReceiver(t, receiverOptions{DatabaseURL: dbtest.DSN(t)})
	b.inbox.Close()
	require.Equal(t, "the inbox does not answer\n", b.deliver("/acme", "evt_1", http.StatusServiceUnavailable).text)
	require.EqualValues(t, 1, b.Counts("/acme").Failed)
}

func TestRingAndRememberedForgetTheOldest(t *testing.T) {
	t.Parallel()
	r := newRing[int](3)
	for i := 1; i <= 5; i++ {
		require.EqualValues(t, i, r.push(i*10))
	}
	require.Nil(t, r.get(2))
	for n := uint64(3); n <= 5; n++ {
		require.EqualValues(t, n*10, *r.get(n))
	}
	require.Nil(t, r.get(6))
	r.reset()
	require.Nil(t, r.get(5))
	require.EqualValues(t, 6, r.push(60))
	require.Equal(t, 60, *r.get(6))

	m := newRemembered[string, int](2)
	for _, key := range []string{"a", "b", "a", "c"} {
		value, _ := m.touch(key)
		*value++
	}
	require.ElementsMatch(t, []string{"b", "c"}, keysOf(m.values))
	_, isNew := m.touch("a")
	require.True(t, isNew)
}

func keysOf[K comparable, V any](m map[K]V) (keys []K) {
	for key := range maps.Keys(m) {
		keys = append(keys, key)
	}
	return keys
}
