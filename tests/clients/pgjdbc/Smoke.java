// pgjdbc: parameters, batches, transactions, errors, DatabaseMetaData.
import java.math.BigDecimal;
import java.sql.*;
import java.util.*;

public class Smoke {
    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("MERIDIAN_PORT") + "/meridian?user=root";
        try (Connection db = DriverManager.getConnection(url); Statement plain = db.createStatement()) {
            plain.execute("DROP VIEW IF EXISTS jdbc_view");
            plain.execute("DROP TABLE IF EXISTS jdbc_all");
            plain.execute("CREATE TABLE jdbc_all (i int PRIMARY KEY, b bigint, n numeric(10,2), f float8, t boolean,"
                + " s varchar(20) NOT NULL, y bytea, u uuid, d date, ts timestamp)");
            UUID u = new UUID(0, 5);
            Timestamp ts = Timestamp.valueOf("2024-02-29 12:30:00");
            String insert = "INSERT INTO jdbc_all VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
            try (PreparedStatement statement = db.prepareStatement(insert)) {
                Object[] row = {7, 1L << 40, new BigDecimal("12.50"), 1.5, true, "text ✓", new byte[] {0, -1}, u,
                    java.sql.Date.valueOf("2024-02-29"), ts};
                for (int n = 0; n < row.length; n++) statement.setObject(n + 1, row[n]);
                check(statement.executeUpdate() == 1, "insert");
            }
            // Often enough for the driver to prepare it at the server and to ask for binary values.
            try (PreparedStatement statement = db.prepareStatement("SELECT * FROM jdbc_all WHERE i = ?")) {
                for (int n = 0; n < 8; n++) {
                    statement.setInt(1, 7);
                    try (ResultSet rows = statement.executeQuery()) {
                        check(rows.next() && rows.getLong(2) == 1L << 40, "bigint");
                        check(rows.getBigDecimal(3).equals(new BigDecimal("12.50")), "numeric");
                        check(rows.getString(6).equals("text ✓") && rows.getBytes(7).length == 2, "text");
                        check(rows.getObject(8).equals(u) && rows.getTimestamp(10).equals(ts), "uuid, timestamp");
                    }
                }
            }
            db.setAutoCommit(false);
            try (PreparedStatement batch = db.prepareStatement("INSERT INTO jdbc_all (i, s) VALUES (?, ?)")) {
                for (int n = 10; n < 20; n++) {
                    batch.setInt(1, n);
                    batch.setString(2, "batch");
                    batch.addBatch();
                }
                check(batch.executeBatch().length == 10, "batch");
            }
            Savepoint savepoint = db.setSavepoint();
            try {
                plain.execute("INSERT INTO jdbc_all (i, s) VALUES (7, 'x')");
                check(false, "twice");
            } catch (SQLException error) {
                check(error.getSQLState().equals("23505"), error.getMessage());
                db.rollback(savepoint);
            }
            db.commit();
            db.setAutoCommit(true);
            plain.execute("CREATE VIEW jdbc_view AS SELECT i, s FROM jdbc_all");
            DatabaseMetaData about = db.getMetaData();
            Map<String, String> kinds = new TreeMap<>();
            try (ResultSet rows = about.getTables(null, "public", "jdbc%", new String[] {"TABLE", "VIEW"})) {
                while (rows.next()) kinds.put(rows.getString("TABLE_NAME"), rows.getString("TABLE_TYPE"));
            }
            check(kinds.equals(Map.of("jdbc_all", "TABLE", "jdbc_view", "VIEW")), kinds.toString());
            try (ResultSet rows = about.getColumns(null, "public", "jdbc_all", null)) {
                check(rows.next() && rows.getString("COLUMN_NAME").equals("i"), "getColumns");
            }
            try (ResultSet rows = about.getPrimaryKeys(null, "public", "jdbc_all")) {
                check(rows.next() && rows.getString("COLUMN_NAME").equals("i"), "getPrimaryKeys");
            }
        }
    }
}
